// Package tracker reads issues where people keep them, and writes a comment there: Linear, Jira, GitLab and GitHub.
//
// Anybody may have written what stands in an issue: it is data, kept to the byte and never markup, and what is shown of it
// besides is made visible first.
package tracker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Tracker is where issues are. Keys are those of a [Ref].
type Tracker interface {
	// Issue is an issue with its comments, oldest first.
	Issue(ctx context.Context, key string) (*Issue, error)
	// Comments are those of an issue.
	Comments(ctx context.Context, key string) ([]Comment, error)
	// Comment writes one.
	Comment(ctx context.Context, key, text string) error
}

// Issue is what somebody wants.
type Issue struct {
	Ref      Ref
	Name     string // as people call it there: ABC-12, #12
	URL      string
	State    string
	Title    string
	Body     string // Markdown
	Author   string
	Labels   []string
	Urgency  string // P0 to P3, as the tracker's own priority says; "": it says none
	Blockers []Blocker
	Comments []Comment
	Hidden   int // comments that those who look after the project have hidden
}

// Comment is what somebody wrote to an issue.
type Comment struct{ Author, Body, At string }

// Blocker is an issue that has to be done before.
type Blocker struct {
	Ref  Ref
	Done bool
}

// maxComments is how many comments of an issue are read, the oldest.
const maxComments = 1000

// pageSize is how many of a list are asked for at once.
const pageSize = 100

// Requirement is the issue as a requirement: its name and address, its title, and who wrote what. What people wrote is kept
// to the byte.
func (i *Issue) Requirement() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Issue %s", i.Name)
	if i.State != "" {
		fmt.Fprintf(&b, ", %s", strings.ToLower(i.State))
	}
	fmt.Fprintf(&b, ": %s\n", i.URL)
	if len(i.Labels) > 0 {
		fmt.Fprintf(&b, "Labels: %s\n", strings.Join(i.Labels, ", "))
	}
	fmt.Fprintf(&b, "\n# %s\n\nWritten by %s:\n\n%s\n", i.Title, account(i.Author), orNothing(i.Body))
	for n, c := range i.Comments {
		fmt.Fprintf(&b, "\n## Comment %d of %d, by %s, %s\n\n%s\n", n+1, len(i.Comments), account(c.Author), c.At, orNothing(c.Body))
	}
	return b.String()
}

// account is who it is; accounts that were deleted have no name.
func account(name string) string {
	return cmp.Or(name, "an account that is gone")
}

func orNothing(text string) string {
	if strings.TrimSpace(text) == "" {
		return "(nothing)"
	}
	return text
}

// TaskName is a task's name made of the title, whole words only; of the issue's name where that leaves none.
func (i *Issue) TaskName() string {
	if name := trellis.ShortName(i.Title); name != "" {
		return name
	}
	if n, numbered := strings.CutPrefix(i.Name, "#"); numbered {
		return "issue-" + n
	}
	return trellis.Slug(i.Name)
}

// urgencies are words for priorities, those of trackers and those that people use in labels.
var urgencies = [][]string{
	{"p0", "urgent", "critical", "blocker", "highest"},
	{"p1", "high", "major"},
	{"p2", "medium", "normal"},
	{"p3", "low", "minor", "lowest", "trivial"},
}

// urgency is the priority that a word stands for, "" for none.
func urgency(word string) string {
	for n, words := range urgencies {
		if slices.Contains(words, strings.ToLower(strings.TrimSpace(word))) {
			return trellis.Priorities[n]
		}
	}
	return ""
}

// Priority is what the labels say (P1, priority: high), else the tracker's own priority; "" when nothing does.
func (i *Issue) Priority() string {
	best := ""
	for _, l := range i.Labels {
		group, word := scoped(l)
		p := urgency(word)
		if group == "" && !strings.EqualFold(p, word) || group != "" && group != "priority" {
			continue // a word alone may be about something else
		}
		if p != "" && (best == "" || p < best) {
			best = p
		}
	}
	return cmp.Or(best, i.Urgency)
}

// DevType is the type of work that a label names (backend, type: docs), "" when none does, or several do.
func (i *Issue) DevType() (found string) {
	for _, l := range i.Labels {
		group, word := scoped(l)
		word = strings.ToLower(word)
		if group != "" && group != "type" || !slices.Contains(trellis.DevTypes, word) || word == found {
			continue
		}
		if found != "" {
			return ""
		}
		found = word
	}
	return found
}

// scoped takes a label apart as people group them: "priority: high", "priority/high", "priority::high".
func scoped(label string) (group, word string) {
	at := strings.IndexAny(label, ":/")
	if at < 0 {
		return "", strings.TrimSpace(label)
	}
	return strings.ToLower(strings.TrimSpace(label[:at])), strings.TrimSpace(strings.TrimLeft(label[at:], ":/"))
}
