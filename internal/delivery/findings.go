package delivery

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Findings are what checks and reviewers find wrong with an open pull request. Only reviews and remarks by people who belong to
// the repository count.
type Findings struct {
	head           string // the commit that the checks are about
	past           pipeline.Reactions
	includeHandled bool // also report what a run has reacted to already
	checks         []forge.Check
	reviews        []forge.Review
	remarks        []forge.Remark
}

// NewFindings returns the findings of a pull request. past are the reactions to it; with includeHandled, what they dealt with counts as new.
func NewFindings(pr OpenPR, past pipeline.Reactions, includeHandled bool) *Findings {
	reviews := slices.DeleteFunc(slices.Clone(pr.Status.Wanted), func(v forge.Review) bool { return !v.Trusted })
	return &Findings{head: pr.PR.HeadSHA, past: past, includeHandled: includeHandled, checks: pr.Status.Failed, reviews: reviews}
}

// IsEmpty reports whether nothing is wrong.
func (f *Findings) IsEmpty() bool { return len(f.checks)+len(f.reviews) == 0 }

// New returns the names of the findings that no run has reacted to. Names of checks contain the commit, since each commit has
// its own checks. Remarks alone are not a reason for a reaction.
func (f *Findings) New() (names []string) {
	var checks []string
	for _, c := range f.checks {
		if !f.isCheckHandled(c.Name) {
			checks = append(checks, c.Name)
		}
	}
	if slices.Sort(checks); len(checks) > 0 {
		names = append(names, f.checksName()+strings.Join(slices.Compact(checks), checkSeparator))
	}
	for _, v := range f.reviews {
		names = append(names, reviewName(v))
	}
	if names = slices.DeleteFunc(names, f.isHandled); len(names) == 0 {
		return nil
	}
	for _, m := range f.remarks {
		names = append(names, remarkName(m))
	}
	return slices.DeleteFunc(names, f.isHandled)
}

// checkSeparator separates the names of checks.
const checkSeparator = ", "

func (f *Findings) checksName() string { return "checks of " + f.head + ": " }

func reviewName(v forge.Review) string { return "review " + v.ID }
func remarkName(m forge.Remark) string { return "remark " + m.ID }

// isHandled reports whether a run has reacted to the finding called name already. It returns false if includeHandled is set.
func (f *Findings) isHandled(name string) bool {
	return !f.includeHandled && slices.Contains(f.past.Seen, name)
}

// isCheckHandled is like isHandled for a check at this commit. The reaction may have been to several checks, of which the others
// were repeated since.
func (f *Findings) isCheckHandled(name string) bool {
	return !f.includeHandled && slices.ContainsFunc(f.past.Seen, func(seen string) bool {
		names, of := strings.CutPrefix(seen, f.checksName())
		return of && strings.Contains(checkSeparator+names+checkSeparator, checkSeparator+name+checkSeparator)
	})
}

// AddDetails adds the details. If the base branch requires certain checks, other checks are not a reason for a run.
func (f *Findings) AddDetails(d forge.Details) {
	if len(d.Required) > 0 {
		f.checks = slices.DeleteFunc(slices.Clone(f.checks), func(c forge.Check) bool { return !slices.Contains(d.Required, c.Name) })
	}
	f.reviews = slices.DeleteFunc(f.reviews, func(v forge.Review) bool { return f.isHandled(reviewName(v)) })
	f.remarks = slices.DeleteFunc(d.Remarks, func(m forge.Remark) bool { return !m.Trusted || f.isHandled(remarkName(m)) })
}

// Reactions returns the task's past reactions together with one to these findings.
func (f *Findings) Reactions() pipeline.Reactions {
	all := pipeline.Reactions{Seen: slices.Clone(f.past.Seen), Rounds: f.past.Rounds}
	for _, name := range f.New() {
		if !slices.Contains(all.Seen, name) {
			all.Seen = append(all.Seen, name)
		}
	}
	if f.includeHandled {
		all.Rounds = 0
	}
	return all
}

// Code returns the failure code of a task that is left with these findings.
func (f *Findings) Code() trellis.Code {
	if len(f.reviews) > 0 {
		return trellis.ChangesRequested
	}
	return trellis.CIFailed
}

// Detail summarizes the findings in one line.
func (f *Findings) Detail() string {
	var said, checks, who []string
	for _, c := range f.checks {
		checks = append(checks, oneLine(c.Name, 80))
	}
	if len(checks) > 5 {
		checks = append(checks[:5], fmt.Sprintf("and %d more", len(checks)-5))
	}
	if len(checks) > 0 {
		said = append(said, "checks fail ("+strings.Join(checks, ", ")+")")
	}
	for _, v := range f.reviews {
		who = append(who, oneLine(v.Author, 40))
	}
	if len(who) > 0 {
		said = append(said, "changes are asked for (by "+strings.Join(who, ", ")+")")
	}
	return strings.Join(said, ", ")
}

// oneLine returns text that somebody else wrote as part of one line, of at most most bytes.
func oneLine(s string, most int) string { return text.Cut(text.OneLine(s), most) }

// Limits for what others wrote, in bytes, except maxLogs.
const (
	maxLog    = 8 << 10 // the end of a check's log
	maxLogs   = 3
	maxRemark = 4 << 10
	maxFound  = 48 << 10 // of the whole text
)

// Write saves what checks printed and reviewers wrote in a file, for the agent of run number n of the task in dir.
func (f *Findings) Write(ctx context.Context, by Forge, redact func(string) string, disk *durable.Disk, dir string, n int) (agentcall.Ref, error) {
	said := strings.TrimSpace(strings.ToValidUTF8(f.text(ctx, by), "�"))
	if redact != nil {
		said = redact(said)
	}
	said = text.Cut(said, maxFound)
	path := fmt.Sprintf("reactions/%d.md", n)
	file := filepath.Join(dir, taskdir.Run, path)
	if err := disk.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return agentcall.Ref{}, fmt.Errorf("making the folder of what is reacted to: %w", err)
	}
	return agentcall.Ref{Path: path, SHA256: agentcall.SHA256Hex([]byte(said)), Bytes: len(said)}, disk.WriteFile(file, []byte(said), 0o600)
}

func (f *Findings) text(ctx context.Context, by Forge) string {
	var b strings.Builder
	for i, c := range f.checks {
		fmt.Fprintf(&b, "The check %s failed.\n", oneLine(c.Name, 200))
		if i < maxLogs {
			log, err := by.Log(ctx, c)
			if err != nil {
				log = "What it printed could not be read: " + err.Error()
			}
			b.WriteString(text.Tail(log, maxLog))
		}
		b.WriteString("\n")
	}
	for _, v := range f.reviews {
		fmt.Fprintf(&b, "%s asks for changes:\n%s\n\n", oneLine(v.Author, 100), text.Cut(v.Text, maxRemark))
	}
	for _, m := range f.remarks {
		at := oneLine(m.Path, 300)
		if m.Line > 0 {
			at += fmt.Sprintf(":%d", m.Line)
		}
		fmt.Fprintf(&b, "%s, on %s:\n%s\n\n", oneLine(m.Author, 100), at, text.Cut(m.Text, maxRemark))
	}
	return b.String()
}
