package tui

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// maxPage is the most lines that a page has.
const maxPage = 20_000

func (p *project) Page(ctx context.Context, id string, tab Tab) (list []line, about Subject, err error) {
	switch tab {
	case Now:
		list, err = p.currentState(ctx, id)
	case Plan:
		list, about, err = p.plan(ctx, id)
	case Diff:
		list, err = p.diff(ctx, id)
	case Log:
		list, err = p.logOf(id)
		if len(list) == 0 {
			list = lines("nothing was done for it yet", plain)
		}
	case Report:
		list, err = p.report(id)
	case Proofs:
		list, err = p.proofs(ctx, id)
	}
	if over := len(list) - maxPage; over > 0 {
		list = append(list[:maxPage:maxPage], lines(fmt.Sprintf("… and %d lines more", over), yellow)...)
	}
	return list, about, err
}

// lastLines is how many lines of the log the page Now shows.
const lastLines = 15

// currentState returns the state of a task, what comes next, and what was done last.
func (p *project) currentState(ctx context.Context, id string) ([]line, error) {
	t, err := p.Task(id)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := terminal.Show(&b, t, terminal.Style{}); err != nil {
		return nil, err
	}
	all := lines(b.String(), plain)
	if len(all) > 0 {
		all[0].paint = bold
		all = slices.Insert(all, 1, line{phases(t), statusPaint[statusOf(&t)]})
	}
	for i := range all {
		if strings.HasPrefix(all[i].text, "  problem ") {
			all[i].paint = red
		}
	}
	if next, err := p.Next(ctx, p.path(id)); err == nil && next != "" {
		all = append(all, lines(fmt.Sprintf("  %-9s %s", "next", next), bold)...)
	}
	done, err := p.logOf(id)
	if len(done) > 0 {
		all = append(all, line{}, line{"last in the log", bold})
		all = append(all, done[max(0, len(done)-lastLines):]...)
	}
	return all, err
}

// phases returns how far a task is: a bar, and the phase that it is in.
func phases(t status.Task) string {
	at := slices.Index(status.PhaseOrder, t.Phase)
	switch {
	case t.Status == trellis.Review || t.Status == trellis.Completed:
		return strings.Repeat("■", len(status.PhaseOrder)) + " " + string(t.Status)
	case t.Phase == "debug":
		at = slices.Index(status.PhaseOrder, "implement")
	case at < 0:
		return strings.Repeat("□", len(status.PhaseOrder)) + " " + strings.TrimSpace(string(statusOf(&t))+" "+t.Phase)
	}
	bar := strings.Repeat("■", at) + "▣" + strings.Repeat("□", len(status.PhaseOrder)-at-1) + " " + t.Phase
	if t.Round > 0 {
		bar += fmt.Sprintf(", round %d", t.Round)
	}
	return bar
}

// plan returns what people agree to: a step that waits for them, what is to be built, the requirement in full.
func (p *project) plan(ctx context.Context, id string) (all []line, about Subject, err error) {
	r, err := p.Review(ctx, p.path(id))
	if err != nil {
		return nil, about, err
	}
	about.Hash = r.Hash
	if q := status.PendingRequest(p.path(id), p.Env.Now()); q != nil {
		about = Subject{Step: q.Path, Hash: q.Hash}
		all = requestLines(q.Path, q.Title, q.Description, q.Lets)
	}
	var b bytes.Buffer
	if err := terminal.Review(&b, r, terminal.Style{}); err != nil {
		return nil, Subject{}, err
	}
	all = append(all, lines(b.String(), plain)...)
	name, text, err := p.Document(p.path(id), taskdir.PRD, taskdir.Requirement)
	if err != nil {
		return nil, Subject{}, err
	}
	if text != "" {
		all = append(append(all, line{}, line{name, reverse}), boldHeadings(lines(text, plain))...)
	}
	return all, about, nil
}

// requestLines returns the lines of a step that waits for people.
func requestLines(path, title, description string, lets []string) []line {
	all := lines("step "+path+" waits for approval: "+title, bold)
	all = append(all, lines(description, plain)...)
	if len(lets) > 0 {
		all = append(all, lines("then run: "+strings.Join(lets, ", "), plain)...)
	}
	return append(all, line{})
}

// boldHeadings makes the headings of a page of Markdown bold.
func boldHeadings(list []line) []line {
	for i := range list {
		if strings.HasPrefix(list[i].text, "#") {
			list[i].paint = bold
		}
	}
	return list
}

// maxPatch is how many bytes of a patch are shown.
const maxPatch = 4 << 20

// patch keeps the beginning of what is written to it.
type patch struct {
	strings.Builder
	truncated bool
}

func (b *patch) Write(data []byte) (int, error) {
	n := len(data)
	if room := maxPatch - b.Len(); n > room {
		data, b.truncated = data[:room], true
	}
	b.Builder.Write(data)
	return n, nil
}

// diff returns what was changed, the files first.
func (p *project) diff(ctx context.Context, id string) ([]line, error) {
	var b patch
	began, err := p.Diff(ctx, p.path(id), false, &b)
	switch {
	case err != nil:
		return nil, err
	case !began:
		return lines("it has not begun: nothing was changed for it", plain), nil
	case b.Len() == 0:
		return lines("nothing was changed", plain), nil
	}
	body := colourPatch(lines(b.String(), plain))
	if b.truncated {
		body = append(body, lines("… there is more; next: trellis diff "+trellis.ShellWord(id), yellow)...)
	}
	return append(patchFiles(body), body...), nil
}

// colourPatch colours the lines of a patch.
func colourPatch(list []line) []line {
	for i := range list {
		switch s := list[i].text; {
		case strings.HasPrefix(s, "diff --git "), strings.HasPrefix(s, "--- "), strings.HasPrefix(s, "+++ "):
			list[i].paint = bold
		case strings.HasPrefix(s, "@@"):
			list[i].paint = cyan
		case strings.HasPrefix(s, "+"):
			list[i].paint = green
		case strings.HasPrefix(s, "-"):
			list[i].paint = red
		}
	}
	return list
}

// patchFiles returns a line for each file of a patch, with how many lines were added and removed.
func patchFiles(list []line) (all []line) {
	name, added, removed := "", 0, 0
	end := func() {
		if name != "" {
			all = append(all, line{fmt.Sprintf("%s  +%d -%d", name, added, removed), plain})
		}
	}
	for _, l := range list {
		switch {
		case strings.HasPrefix(l.text, "diff --git "):
			end()
			_, name, _ = strings.Cut(strings.TrimPrefix(l.text, "diff --git "), " ")
			name, added, removed = strings.TrimPrefix(name, "b/"), 0, 0
		case l.paint == green:
			added++
		case l.paint == red:
			removed++
		}
	}
	end()
	return append(all, line{})
}

// logOf returns the lines of a task's log. What was read once is not read again.
func (p *project) logOf(id string) ([]line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || filepath.Base(p.log.Dir) != id {
		p.log, p.logLines = &status.Log{Dir: p.path(id), Decode: agents.Decoder}, nil
		p.logPrinter = &terminal.LogPrinter{Whole: "trellis logs --full " + trellis.ShellWord(id)}
	}
	news, _, err := p.log.Next()
	for _, l := range news {
		var b bytes.Buffer
		p.logPrinter.W = &b
		if err := p.logPrinter.Print(l); err != nil {
			return nil, err
		}
		p.logLines = append(p.logLines, lines(b.String(), plain)...)
	}
	if over := len(p.logLines) - maxPage; over > 0 {
		p.logLines = append([]line{{fmt.Sprintf("… there was more; next: trellis logs %s", trellis.ShellWord(id)), yellow}}, p.logLines[over+1:]...)
	}
	return slices.Clone(p.logLines), err
}

func (p *project) report(id string) ([]line, error) {
	_, said, err := p.Document(p.path(id), taskdir.Report, taskdir.Rejected)
	if err != nil {
		return nil, err
	}
	if said == "" {
		return lines("there is no report yet", plain), nil
	}
	return boldHeadings(lines(said, plain)), nil
}

// proofs returns what the records of the task's checks prove.
func (p *project) proofs(ctx context.Context, id string) (all []line, err error) {
	r, err := runner.VerifyTask(ctx, p.Store, p.Repo.Refs(), p.path(id))
	if err != nil {
		return nil, err
	}
	if r.NothingToProve {
		return lines("there is no plan with checks, so there is nothing to prove", plain), nil
	}
	all = lines(fmt.Sprintf("%d of %s with a check proven, by %s", len(r.Proven), text.Count(len(r.Proven)+len(r.Unproven), "step"), text.Count(len(r.Records), "record")), bold)
	for _, f := range r.Findings {
		all = append(all, lines(fmt.Sprintf("✗ %s: %s", f.Fault, f.Message), red)...)
	}
	for _, f := range r.Unproven {
		if f.Step != "" {
			all = append(all, lines(fmt.Sprintf("○ %s: %s", f.Step, f.Message), yellow)...)
		}
	}
	for _, rec := range r.Records {
		mark, how := "✓", green
		if rec.Exit != 0 {
			mark, how = "✗", red
		}
		what := strings.TrimSpace(rec.Step + " " + rec.Kind)
		all = append(all, lines(fmt.Sprintf("%s %s  %s", mark, what, rec.Command), how)...)
		for _, c := range rec.Checks {
			all = append(all, lines(fmt.Sprintf("    %s %s (exit %d)", c.Kind, c.Command, c.Exit), plain)...)
		}
	}
	return all, nil
}
