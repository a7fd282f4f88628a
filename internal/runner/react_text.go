package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// How much of what others wrote is told, in bytes, and how many of it.
const (
	maxLog    = 8 << 10 // of a check, its end
	maxLogs   = 3
	maxRemark = 4 << 10
	maxFound  = 48 << 10 // in all
)

// name names what is found wrong and was not reacted to: checks by their commit, since another one has others.
func (r *reaction) name() {
	r.names = nil
	if len(r.checks) > 0 {
		var all []string
		for _, c := range r.checks {
			all = append(all, c.Name)
		}
		slices.Sort(all)
		r.names = append(r.names, "checks of "+r.seen.PR.HeadSHA+": "+strings.Join(slices.Compact(all), ", "))
	}
	for _, v := range r.reviews {
		r.names = append(r.names, "review "+v.ID)
	}
	if r.new(); len(r.names) > 0 {
		for _, m := range r.remarks {
			r.names = append(r.names, "remark "+m.ID)
		}
		r.new()
	}
}

// new leaves out of the names those that there was a reaction to.
func (r *reaction) new() {
	r.names = slices.DeleteFunc(r.names, r.known)
}

// known reports whether there was a reaction to something that does for now.
func (r *reaction) known(name string) bool {
	return !r.asked && slices.Contains(r.past.Reactions.Seen, name)
}

// choose takes in the details. Where the base branch requires checks, others are no reason for a run. Remarks count of
// those who belong to the repository.
func (r *reaction) choose(d github.Details) {
	if len(d.Required) > 0 {
		r.checks = slices.DeleteFunc(slices.Clone(r.checks), func(c github.Check) bool { return !slices.Contains(d.Required, c.Name) })
	}
	r.remarks = slices.DeleteFunc(d.Remarks, func(m github.Remark) bool { return !m.Trusted })
	r.name()
	r.reviews = slices.DeleteFunc(r.reviews, func(v github.Review) bool { return r.known("review " + v.ID) })
	r.remarks = slices.DeleteFunc(r.remarks, func(m github.Remark) bool { return r.known("remark " + m.ID) })
}

func (r *reaction) code() trellis.Code {
	if len(r.reviews) > 0 {
		return trellis.ChangesRequested
	}
	return trellis.CIFailed
}

// detail says in short what is found wrong.
func (r *reaction) detail() string {
	var said []string
	if len(r.checks) > 0 {
		var all []string
		for _, c := range r.checks {
			all = append(all, line(c.Name, 80))
		}
		if len(all) > 5 {
			all = append(all[:5], fmt.Sprintf("and %d more", len(all)-5))
		}
		said = append(said, "checks fail ("+strings.Join(all, ", ")+")")
	}
	if len(r.reviews) > 0 {
		var who []string
		for _, v := range r.reviews {
			who = append(who, line(v.Author, 40))
		}
		said = append(said, "changes are asked for (by "+strings.Join(who, ", ")+")")
	}
	return strings.Join(said, ", ")
}

// line is a text of somebody else as a part of a line.
func line(s string, most int) string {
	if s = strings.Join(strings.Fields(s), " "); len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// tell writes down what checks printed and reviewers wrote, for the agent of run number n.
func (r *reaction) tell(ctx context.Context, n int) (agentcall.Ref, error) {
	var b strings.Builder
	for i, c := range r.checks {
		fmt.Fprintf(&b, "The check %s failed.\n", line(c.Name, 200))
		if i < maxLogs {
			log, err := r.s.Remote().Forge.Log(ctx, c)
			if err != nil {
				log = "" // it is told without
			}
			b.WriteString(end(log, maxLog))
		}
		b.WriteString("\n")
	}
	for _, v := range r.reviews {
		fmt.Fprintf(&b, "%s asks for changes:\n%s\n\n", line(v.Author, 100), begin(v.Text, maxRemark))
	}
	for _, m := range r.remarks {
		at := line(m.Path, 300)
		if m.Line > 0 {
			at += fmt.Sprintf(":%d", m.Line)
		}
		fmt.Fprintf(&b, "%s, on %s:\n%s\n\n", line(m.Author, 100), at, begin(m.Text, maxRemark))
	}
	text := strings.TrimSpace(strings.ToValidUTF8(b.String(), "�"))
	if r.s.Redact != nil {
		text = r.s.Redact(text)
	}
	text = begin(text, maxFound)
	path := fmt.Sprintf("reactions/%d.md", n)
	file := filepath.Join(r.seen.Dir, taskdir.Run, path)
	if err := r.s.Disk.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return agentcall.Ref{}, fmt.Errorf("making the folder of what is reacted to: %w", err)
	}
	return agentcall.Ref{Path: path, SHA256: agentcall.Sum([]byte(text)), Bytes: len(text)}, r.s.Disk.WriteFile(file, []byte(text), 0o600)
}

// begin is the beginning of a text, and end its end.
func begin(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "\n…"
	}
	return s
}

func end(s string, most int) string {
	if len(s) > most {
		return "…\n" + strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return s
}
