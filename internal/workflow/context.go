package workflow

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Limits for the files that are put before a prompt, in bytes. An agent can read the rest.
const (
	contextCap  = 32 << 10 // for each file
	contextCaps = 128 << 10
)

// file returns the path that a variable names.
func (t *promptBuilder) file(name string) string { return t.fill(t.d.Values[name]) }

// addContext shows the files that the step names. A missing file fails the call: the step would be done without what it depends on.
func (t *promptBuilder) addContext() error {
	if len(t.s.Context) == 0 {
		return nil
	}
	var b strings.Builder
	left := contextCaps
	for _, name := range t.s.Context {
		file := t.file(name)
		data, size, err := readStart(t.a.workDir(t.d.Dir), file, min(contextCap, left))
		if err != nil {
			return flow.Fail(string(trellis.InvalidTask), "step %s: its context %s, which is the file %s, can't be read: %s", t.d.Path, name, file, errorText(err))
		}
		shown := min(len(data), contextCap, left)
		left -= shown
		fmt.Fprintf(&b, "# %s\n\n", file)
		if int64(shown) < size {
			t.notes = append(t.notes, fmt.Sprintf("%s, which is context of %s, is not shown in full: %d of %d bytes", file, t.d.Path, shown, size))
			fmt.Fprintf(&b, "[the first %d of %d bytes; read the rest in the file]\n\n", shown, size)
		}
		fmt.Fprintf(&b, "%s\n\n", head(data, shown))
	}
	t.slots["context"] = b.String()
	return nil
}

// readStart returns the beginning of a file, n+1 bytes if it is longer than n, and its size.
func readStart(dir, name string, n int) ([]byte, int64, error) {
	f, err := durable.OpenBelow(dir, name, durable.AnySize)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(n)+1))
	return data, max(st.Size(), int64(len(data))), err
}

// errorText returns the text of an error without what the sentence around it says already.
func errorText(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	if unfit, ok := errors.AsType[*durable.FileError](err); ok {
		return "it " + unfit.Reason()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	return err.Error()
}

// planText describes what the whole plan is about, unless a document says that, and last where the step is in the plan, so that
// the text before it is the same for all steps of a list.
func (t *promptBuilder) planText() string {
	var b strings.Builder
	p := t.b.Plan("")
	if t.a.Documents == nil {
		describePlan(&b, p)
	}
	if at := t.d.Place.File; at != "" {
		p = t.b.Plan(at)
		fmt.Fprintf(&b, "\nOne of its steps is the file %s: %s\n%s\n", at, p.Title, p.Summary)
	}
	last, of, steps, name := 0, 0, p.Steps, ""
	for _, n := range t.d.Place.At {
		t.outline(&b, name, steps)
		last, of, name, steps = n+1, len(steps), steps[n].ID, steps[n].Steps
	}
	return head([]byte(b.String()), planCap) + fmt.Sprintf("\nYours is %s, step %d of %d.", t.d.Path, last, of)
}

func describePlan(b *strings.Builder, p *plan.Plan) {
	fmt.Fprintf(b, "# %s\n\n%s\n", p.Title, p.Summary)
	bullets(b, "Decided", p.DesignDecisions)
	bullets(b, "Assumed", p.Assumptions)
	var left []string
	for _, u := range p.Uncovered {
		left = append(left, u.Item+": "+u.Reason)
	}
	bullets(b, "Left out", left)
	bullets(b, "Out of scope", p.OutOfScope)
}

func (t *promptBuilder) outline(b *strings.Builder, group string, steps []plan.Step) {
	var list []string
	for _, s := range steps {
		line := fmt.Sprintf("%s (%s)", s.ID, s.Kind())
		if title := t.fill(s.Title); title != "" {
			line += ": " + title
		}
		list = append(list, line)
	}
	heading := "Steps"
	if group != "" {
		heading += " of " + group
	}
	bullets(b, heading, list)
}

func bullets(b *strings.Builder, heading string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", heading)
	for _, item := range items {
		fmt.Fprintf(b, "- %s\n", item)
	}
}
