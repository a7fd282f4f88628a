// Package tracker reads issues from Linear, Jira, GitLab and GitHub, and writes comments to them.
//
// The content of an issue is untrusted, as anybody may have written it: it is kept byte for byte and never treated as markup,
// and control characters in everything else that is shown of an issue are made visible first.
package tracker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Tracker is a service that has issues. Keys are those of a [Ref].
type Tracker interface {
	// Issue returns an issue with its first comments, oldest first.
	Issue(ctx context.Context, key string) (*Issue, error)
	// Comments returns the comments of an issue, hidden ones too, oldest first.
	Comments(ctx context.Context, key string) ([]Comment, error)
	// Comment adds a comment to an issue.
	Comment(ctx context.Context, key, text string) error
}

// Issue is an issue of a tracker.
type Issue struct {
	Ref      Ref
	Name     string // as people name it in the tracker: ABC-12, #12
	URL      string
	State    string
	Title    string
	Body     string // Markdown
	Author   string
	Labels   []string
	Urgency  string // P0 to P3, from the tracker's own priority; "" if it has none
	Blockers []Blocker
	Comments []Comment
	Hidden   int // number of comments that the project's maintainers have hidden
}

// Comment is a comment on an issue.
type Comment struct{ Author, Body, At string }

// Blocker is an issue that has to be done first.
type Blocker struct {
	Ref  Ref
	Done bool
}

const (
	maxComments = 10_000 // comments of an issue that are read; no tracker is asked for page after page without an end
	maxQuoted   = 1000   // of these, the ones that an Issue has; the newest are left out
)

// pageSize is how many elements of a list are requested at once.
const pageSize = 100

// Requirement returns the issue as a requirement: its name and address, its title, and its texts with their authors. The texts
// are kept byte for byte.
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
	fmt.Fprintf(&b, "\n# %s\n\nWritten by %s:\n\n%s\n", i.Title, accountName(i.Author), orNothing(i.Body))
	for n, c := range i.Comments {
		fmt.Fprintf(&b, "\n## Comment %d of %d, by %s, %s\n\n%s\n", n+1, len(i.Comments), accountName(c.Author), c.At, orNothing(c.Body))
	}
	return b.String()
}

// accountName returns the name to show for an account; deleted accounts have none.
func accountName(name string) string {
	return cmp.Or(name, "a deleted account")
}

func orNothing(text string) string {
	if strings.TrimSpace(text) == "" {
		return "(nothing)"
	}
	return text
}

// TaskName returns a task name made of whole words of the title or, if that leaves nothing, of the issue's name.
func (i *Issue) TaskName() string {
	if name := trellis.ShortName(i.Title); name != "" {
		return name
	}
	if n, numbered := strings.CutPrefix(i.Name, "#"); numbered {
		return "issue-" + n
	}
	return trellis.Slug(i.Name)
}

// urgencies are the words for priorities in trackers and in labels.
var urgencies = [][]string{
	{"p0", "urgent", "critical", "blocker", "highest"},
	{"p1", "high", "major"},
	{"p2", "medium", "normal"},
	{"p3", "low", "minor", "lowest", "trivial"},
}

// urgency returns the priority that a word stands for, "" for none.
func urgency(word string) string {
	for n, words := range urgencies {
		if slices.Contains(words, strings.ToLower(strings.TrimSpace(word))) {
			return trellis.Priorities[n]
		}
	}
	return ""
}

// Priority returns the priority in the labels (P1, priority: high), else the tracker's own, else "".
func (i *Issue) Priority() string {
	best := ""
	for _, l := range i.Labels {
		group, word := splitLabel(l)
		p := urgency(word)
		if group == "" && !strings.EqualFold(p, word) || group != "" && group != "priority" {
			continue // a word without a group may mean something else
		}
		if p != "" && (best == "" || p < best) {
			best = p
		}
	}
	return cmp.Or(best, i.Urgency)
}

// DevType returns the type of work that a label names (backend, type: docs), "" if none does or labels disagree.
func (i *Issue) DevType() (found string) {
	for _, l := range i.Labels {
		group, word := splitLabel(l)
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

// splitLabel splits a label into group and word: "priority: high", "priority/high", "priority::high".
func splitLabel(label string) (group, word string) {
	at := strings.IndexAny(label, ":/")
	if at < 0 {
		return "", strings.TrimSpace(label)
	}
	return strings.ToLower(strings.TrimSpace(label[:at])), strings.TrimSpace(strings.TrimLeft(label[at:], ":/"))
}
