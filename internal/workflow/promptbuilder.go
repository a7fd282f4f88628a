package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Limits for what a prompt shows, in bytes. The step's own texts are shown in full.
const (
	answerCap = 64 << 10 // answer of an agent
	outputCap = 12 << 10 // end of each stream of a command
	planCap   = 16 << 10 // description of the plan
)

// Slots returns the slots of the prompt of a step's request.
func (a *Effects) Slots(ctx context.Context, c flow.Call, r agentcall.Request) (map[string]string, []string, error) {
	var d PromptData
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return nil, nil, fmt.Errorf("reading the request: %w", err)
	}
	b, s, err := a.step(d.Bundle, d.Place)
	if err != nil {
		return nil, nil, err
	}
	d.Again = d.Again && r.Session != ""
	t := &promptBuilder{a: a, d: d, b: b, s: s, slots: map[string]string{"title": plan.Fill(s.Title, d.Values)}}
	if strings.TrimSpace(s.Title) == "" {
		t.slots["title"] = d.Path
	}
	switch r.Role {
	case trellis.Implement:
		err = t.addWork(ctx)
	case trellis.Grade:
		err = t.addGrade(ctx, c)
	case trellis.Heal:
		err = t.addHeal(ctx)
	default:
		err = fmt.Errorf("no step asks for the role %s", r.Role)
	}
	return t.slots, t.notes, err
}

// Check returns what is wrong with a grade besides violations of its schema: one that does not pass has to say what to change.
func (a *Effects) Check(r agentcall.Request, answer json.RawMessage) []string {
	if r.Role != trellis.Grade {
		return nil
	}
	var g Grade
	if err := json.Unmarshal(answer, &g); err != nil {
		return []string{"/: " + err.Error()}
	}
	if !g.Pass && !strings.ContainsFunc(g.Feedback, unicode.IsLetter) {
		return []string{"/feedback: say what to change and where: the step is done again with nothing else to go by"}
	}
	return nil
}

// promptBuilder is a prompt that is being built.
type promptBuilder struct {
	a     *Effects
	d     PromptData
	b     *plan.Bundle
	s     *plan.Step
	slots map[string]string
	notes []string
}

func (t *promptBuilder) fill(text string) string { return plan.Fill(text, t.d.Values) }

// addTask adds what is the same for all steps.
func (t *promptBuilder) addTask(ctx context.Context, role trellis.Role) error {
	if t.d.Again {
		return nil
	}
	t.slots["plan"] = t.planText()
	t.slots["protected"] = strings.Join(t.a.Protected, "\n")
	t.slots["sandbox"] = t.a.Box.PromptText(ctx, string(role), t.a.workDir(t.d.Dir))
	if t.a.Documents == nil {
		return nil
	}
	text, notes, err := t.a.Documents(ctx)
	t.slots["artifacts"] = text
	t.notes = append(t.notes, notes...)
	return err
}

// addInstructions adds the step's instructions, and what has to be true when it is done.
func (t *promptBuilder) addInstructions() error {
	t.slots["work"], t.slots["outcome"] = t.fill(t.s.Prompt), t.fill(t.s.DesiredOutcome)
	if strings.TrimSpace(t.slots["work"]) == "" {
		return flow.Fail(string(trellis.InvalidTask), "the prompt of step %s is empty", t.d.Path)
	}
	return nil
}

// addWork adds the data for the agent that does a prompt step. A session that is continued has the task already; one in which the
// step was refused also has the step's files, and the answer is its own.
func (t *promptBuilder) addWork(ctx context.Context) error {
	if err := t.addInstructions(); err != nil {
		return err
	}
	if err := t.addTask(ctx, trellis.Implement); err != nil {
		return err
	}
	t.slots["description"], t.slots["verify"] = t.fill(t.s.Description), t.fill(t.s.Verify)
	if t.s.Output != "" {
		t.slots["output"] = t.file(t.s.Output)
	}
	t.slots["tries"] = numbered(t.d.Tries)
	if t.d.Again && len(t.d.Tries) > 0 {
		return nil
	}
	if err := t.addContext(); err != nil {
		return err
	}
	return t.addAnswer("previous")
}

// addGrade adds the data for the agent that judges the work of another one.
func (t *promptBuilder) addGrade(ctx context.Context, c flow.Call) error {
	if err := t.addInstructions(); err != nil {
		return err
	}
	if err := t.addAnswer("answer"); err != nil {
		return err
	}
	if strings.TrimSpace(t.slots["answer"]) == "" {
		t.slots["answer"] = "(It said nothing.)"
	}
	diff, notes, err := t.a.change(ctx, c, t.d)
	t.slots["diff"] = diff
	t.notes = append(t.notes, notes...)
	return err
}

// addHeal adds the data for the agent that fixes what makes a command fail.
func (t *promptBuilder) addHeal(ctx context.Context) error {
	if t.d.Ran == nil {
		return fmt.Errorf("the request to heal %s names no command that failed", t.d.Path)
	}
	if err := t.addTask(ctx, trellis.Heal); err != nil {
		return err
	}
	t.slots["command"], t.slots["ended"] = t.fill(t.s.Command), t.exitText(*t.d.Ran)
	t.slots["tries"] = strings.Join(t.d.Tries, "\n\n")
	output, err := t.outputText(*t.d.Ran)
	t.slots["output"] = output
	return err
}

// exitText says how a command ended.
func (t *promptBuilder) exitText(r CommandResult) string {
	switch {
	case r.TimedOut:
		return fmt.Sprintf("its time limit of %v passed, and it was stopped", seconds(*t.s))
	case r.Signal != "":
		return "ended by " + r.Signal
	}
	return fmt.Sprintf("exit code %d", r.Code)
}

// outputText returns the end of what a command printed.
func (t *promptBuilder) outputText(r CommandResult) (string, error) {
	var b strings.Builder
	for _, stream := range []struct {
		name string
		ref  agentcall.Ref
	}{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
		output, err := t.read(stream.ref)
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(output) != "" {
			fmt.Fprintf(&b, "%s:\n%s\n\n", stream.name, strings.TrimRight(text.Tail(output, outputCap), "\n"))
		}
	}
	return b.String(), nil
}

// addAnswer puts an agent's final answer into a slot.
func (t *promptBuilder) addAnswer(slot string) error {
	if t.d.Before == nil {
		return nil
	}
	text, err := t.read(*t.d.Before)
	short := proc.NewCapped(answerCap)
	short.Write([]byte(text)) // never fails
	t.slots[slot] = short.String()
	if short.Cut() {
		t.notes = append(t.notes, fmt.Sprintf("the answer to %s is not shown in full: it has %d bytes", t.d.Path, len(text)))
	}
	return err
}

// read returns the content of a file of the run, and an error if the file was changed.
func (t *promptBuilder) read(ref agentcall.Ref) (string, error) {
	if ref.Path == "" {
		return "", nil
	}
	data, err := durable.ReadBelow(t.a.RunDir, ref.Path, durable.MaxJournal)
	if err != nil {
		return "", fmt.Errorf("reading what was said in %s: %w", t.d.Path, err)
	}
	if agentcall.SHA256Hex(data) != ref.SHA256 {
		return "", fmt.Errorf("run/%s was changed since it was written", ref.Path)
	}
	return string(data), nil
}

func numbered(tries []string) string {
	var b strings.Builder
	for i, reason := range tries {
		fmt.Fprintf(&b, "Try %d: %s\n", i+1, reason)
	}
	return b.String()
}

// head returns the first n bytes of a text at most, and marks where it was cut.
func head(data []byte, n int) string {
	if len(data) <= n {
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	for i := 1; i < utf8.UTFMax && n > 0 && !utf8.RuneStart(data[n]); i++ {
		n--
	}
	return strings.ToValidUTF8(string(data[:n]), "\uFFFD") + "\n[cut here]\n"
}
