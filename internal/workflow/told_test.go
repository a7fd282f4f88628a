package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/templates"
)

// put writes a file below the working directory of steps.
func (b *bench) put(name, text string) {
	b.Helper()
	name = filepath.Join(b.Dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		b.Error(err)
	}
}

// said stores a text in the run's folder, as the answer of an agent, and returns its Ref.
func (b *bench) said(text string) *agentcall.Ref {
	b.Helper()
	ref := agentcall.Ref{Path: "said-" + agentcall.SHA256Hex([]byte(text))[:8], SHA256: agentcall.SHA256Hex([]byte(text)), Bytes: len(text)}
	if err := errors.Join(os.MkdirAll(b.run, 0o755), os.WriteFile(filepath.Join(b.run, ref.Path), []byte(text), 0o644)); err != nil {
		b.Error(err)
	}
	return &ref
}

// repository creates a git repository in dir, with one commit of all its files.
func (b *bench) repository(dir string) {
	b.Helper()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "TMPDIR=" + b.TempDir(),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-qm", "first", "--allow-empty"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("git %s: %v\n%s", args[0], err, out)
		}
	}
	r, err := git.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	r.Env, b.acts.Repo = env, r
}

// told returns the slots of an agent's template, the whole prompt, and notes on what was left out.
func (b *bench) told(role, session string, d workflow.PromptData) (slots map[string]string, text string, notes []string, err error) {
	b.Helper()
	raw, err := agentcall.Encode(d)
	if err != nil {
		return nil, "", nil, err
	}
	slots, notes, err = b.acts.Slots(b.Context(), flow.Call{Run: "t/1", ID: role + "#1", Attempt: 1}, agentcall.Request{Role: trellis.Role(role), Session: session, Data: raw})
	if err != nil {
		return nil, "", notes, err
	}
	name := role
	if role == "implement" {
		name = "step"
	}
	p, err := templates.Render(name, slots, "n0nce", templates.Override{})
	if err != nil {
		return nil, "", notes, err
	}
	return slots, p.Text, notes, nil
}

// filled returns the names of the slots that are not blank.
func filled(slots map[string]string) (names []string) {
	for name, text := range slots {
		if strings.TrimSpace(text) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

const everything = `{"id": "first", "title": "Find {{what}}", "command": "true"},
	{"id": "each", "for_each": ["x"], "steps": [{"id": "do", "title": "Do {{item}}", "description": "Why {{item}}", "prompt": "Do {{item}} with {{v}}, not {{w}} nor ${{ x }}.",
	 "desired_outcome": "{{item}} is {{v}}", "context": ["notes"], "output": "out", "verify": "test -e '{{out}}'", "session": "fresh"}]}`

const odd = "$& $$5 {{w}} $1 {{data work}}"

// Values are inserted into a step's texts once and literally; each text is in its own slot, and no other slot is filled.
func TestStepIsTold(t *testing.T) {
	b := newBench(t, everything, `"summary": "S"`, `"assumptions": ["nobody minds"]`, `"vars": {"v": "`+odd+`", "w": "never", "what": "it", "notes": "sub/{{item}}.md", "out": "out/{{item}}"}`)
	b.put("sub/x.md", "see $& {{v}}\n")
	values := map[string]string{"v": odd, "w": "never", "what": "it", "notes": "sub/{{item}}.md", "out": "out/{{item}}", "item": "x"}
	d := workflow.PromptData{Bundle: "h", Path: "each.1.do", Values: values}
	d.Place = d.Place.In(1).In(0)
	slots, text, notes, err := b.told("implement", "", d)
	if err != nil || notes != nil {
		t.Fatal(err, notes)
	}
	want := map[string]string{
		"title": "Do x", "description": "Why x", "work": "Do x with " + odd + ", not never nor ${{ x }}.", "outcome": "x is " + odd,
		"context": "# sub/x.md\n\nsee $& {{v}}\n\n\n", "output": "out/x", "verify": "test -e 'out/{{item}}'",
		"plan": "# t\n\nS\n\nAssumed:\n- nobody minds\n\nSteps:\n- first (script): Find it\n- each (group)\n\nSteps of each:\n- do (prompt): Do x\n\nYours is each.1.do, step 1 of 1.",
	}
	for name, got := range slots {
		if got != want[name] {
			t.Errorf("%s: got %q, want %q", name, got, want[name])
		}
	}
	for name, said := range want {
		if slots[name] != said || !strings.Contains(text, "\n"+said+"\n") {
			t.Errorf("%s is not in the prompt", name)
		}
	}
}

// A step of a task is given the task's documents. A session that continues is not given again what it was given before.
func TestStepIsNotToldTwice(t *testing.T) {
	b := newBench(t, everything, `"vars": {"v": "v", "w": "w", "what": "it", "notes": "notes.md", "out": "out"}`)
	b.put("notes.md", "n")
	b.acts.Protected = []string{"go.sum", "ci/**"}
	b.acts.Documents = func(context.Context) (string, []string, error) {
		return "### prd.md\n", []string{"design.md is not shown"}, nil
	}
	d := workflow.PromptData{Bundle: "h", Path: "each.1.do", Values: map[string]string{"v": "v", "w": "w", "notes": "notes.md", "out": "out", "item": "x"}}
	d.Place = d.Place.In(1).In(0)
	own := []string{"description", "outcome", "output", "title", "verify", "work"}
	for name, c := range map[string]struct {
		session string
		again   bool
		tries   []string
		more    []string
		notes   int
	}{
		"first":                        {"", false, nil, []string{"artifacts", "context", "plan", "protected"}, 1},
		"a session that goes on":       {"s", true, nil, []string{"context"}, 0},
		"one that is gone":             {"", true, nil, []string{"artifacts", "context", "plan", "protected"}, 1},
		"refused, in the same session": {"s", true, []string{"longer", "shorter"}, []string{"tries"}, 0},
		"refused, in a new session":    {"", false, []string{"longer", "shorter"}, []string{"artifacts", "context", "plan", "previous", "protected", "tries"}, 1},
	} {
		d.Again, d.Tries, d.Before = c.again, c.tries, nil
		if c.tries != nil {
			d.Before = b.said("I did it.")
		}
		slots, _, notes, err := b.told("implement", c.session, d)
		if err != nil {
			t.Fatal(err)
		}
		want := append(slices.Clone(own), c.more...)
		slices.Sort(want)
		if got := filled(slots); !slices.Equal(got, want) || len(notes) != c.notes {
			t.Errorf("%s: got %q, want %q, notes %q", name, got, want, notes)
		}
		if c.tries != nil && slots["tries"] != "Try 1: longer\nTry 2: shorter\n" || slots["previous"] != "" && slots["previous"] != "I did it." || slots["protected"] != "" && slots["protected"] != "go.sum\nci/**" {
			t.Errorf("%s: %q", name, slots)
		}
	}
	b.acts.Documents = func(context.Context) (string, []string, error) { return "", nil, errors.New("no prd") }
	if _, _, _, err := b.told("implement", "", d); err == nil || !strings.Contains(err.Error(), "no prd") {
		t.Errorf("got %v", err)
	}
}

// A prompt is passed on unchanged, whatever its length.
func TestLongPromptIsToldWhole(t *testing.T) {
	long := strings.Repeat("0123456789 äöü $& {{other}} ${{ x }} \\1 </data> \"'`\n", 20000)
	b := newBench(t, `{"id": "a", "prompt": "x"}`)
	whole := b.bundle()
	whole.Plan("").Steps[0].Prompt = "{{v}}\n" + long
	b.acts.Bundle = func(string) (*plan.Bundle, error) { return whole, nil }
	d := workflow.PromptData{Bundle: "h", Path: "a", Values: map[string]string{"v": odd}}
	d.Place = d.Place.In(0)
	slots, text, notes, err := b.told("implement", "", d)
	long = odd + "\n" + long
	if len(long) < 1<<20 || err != nil || notes != nil || slots["work"] != long || strings.Count(text, long) != 1 || slots["title"] != "a" {
		t.Errorf("%d bytes of %d, title %q, %v, %v", len(slots["work"]), len(long), slots["title"], notes, err)
	}
}

// A step that lacks what its prompt needs fails before any agent is called.
func TestStepThatCanNotBeTold(t *testing.T) {
	b := newBench(t, `{"id": "a", "prompt": "{{empty}}"}, {"id": "b", "prompt": "x", "context": ["f"]}, {"id": "c", "command": "false"}`, `"vars": {"empty": " ", "f": "f"}`)
	b.put("folder/x", "")
	if err := errors.Join(os.WriteFile(filepath.Join(b.Dir, "..", "outside"), nil, 0o644), os.Symlink("../outside", filepath.Join(b.Dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		role string
		at   int
		file string
		want string
	}{
		"an empty prompt":        {"implement", 0, "", "invalid_task: the prompt of step s is empty"},
		"an empty prompt, grade": {"grade", 0, "", "invalid_task: the prompt of step s is empty"},
		"no context":             {"implement", 1, "gone/far", "invalid_task: step s: its context f, which is the file gone/far, can't be read: there is no such file"},
		"a folder":               {"implement", 1, "folder", "invalid_task: step s: its context f, which is the file folder, can't be read: it is a folder, not a file"},
		"a link that leads out":  {"implement", 1, "link", "invalid_task: step s: its context f, which is the file link, can't be read: it leads elsewhere: out of the folder that Trellis reads here, or into .git"},
		"outside":                {"implement", 1, "../outside", "invalid_task: step s: its context f, which is the file ../outside, can't be read: it leads elsewhere: out of the folder that Trellis reads here, or into .git"},
		"no name":                {"implement", 1, "", "invalid_task: step s: its context f, which is the file , can't be read: it leads elsewhere: out of the folder that Trellis reads here, or into .git"},
		"another role":           {"plan", 0, "", "no step asks for the role plan"},
		"nothing failed":         {"heal", 2, "", "the request to heal s names no command that failed"},
	} {
		d := workflow.PromptData{Bundle: "h", Path: "s", Values: map[string]string{"empty": " ", "f": c.file}}
		d.Place = d.Place.In(c.at)
		_, _, _, err := b.told(c.role, "", d)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Context files are cut to size, and bytes that are not UTF-8 are replaced.
func TestContextIsBounded(t *testing.T) {
	b := newBench(t, `{"id": "a", "prompt": "x", "context": ["odd", "even", "b", "c", "d", "e"]}`, `"vars": {"odd": "odd", "even": "even", "b": "big", "c": "big", "d": "big", "e": "big"}`)
	b.put("odd", "a\xff\xfe\x00b\n")
	b.put("even", strings.Repeat("ä", 16<<10))
	b.put("big", "a"+strings.Repeat("ü", 17<<10))
	d := workflow.PromptData{Bundle: "h", Path: "a", Values: map[string]string{"odd": "odd", "even": "even", "b": "big", "c": "big", "d": "big", "e": "big"}}
	d.Place = d.Place.In(0)
	slots, text, notes, err := b.told("implement", "", d)
	if err != nil {
		t.Fatal(err)
	}
	got := slots["context"]
	if !strings.Contains(got, "# odd\n\na\uFFFD\x00b\n") || !strings.Contains(got, "# even\n\n"+strings.Repeat("ä", 16<<10)+"\n") || !strings.Contains(text, got) {
		t.Errorf("got %.200q", got)
	}
	if n := len(got); n < 127<<10 || n > 130<<10 || strings.Count(got, "\uFFFD") != 1 {
		t.Errorf("%d bytes, %d bad ones", n, strings.Count(got, "\uFFFD"))
	}
	if len(notes) != 4 || notes[0] != "big, which is context of a, is not shown in full: 32768 of 34817 bytes" || !strings.Contains(notes[2], ": 32762 of") || !strings.Contains(notes[3], ": 0 of") {
		t.Errorf("notes %q", notes)
	}
	if !strings.Contains(got, "[the first 32768 of 34817 bytes; read the rest in the file]\n\naü") {
		t.Error("what is left out is not said")
	}
}

// If a plan calls another file, the prompt of a step describes both.
func TestStepOfAnotherFileIsTold(t *testing.T) {
	b := newBench(t, `{"id": "w", "workflow": "sub/w.json"}`, `"summary": "main"`)
	main := b.bundle()
	other := newBench(t, `{"id": "a", "command": "true"}, {"id": "b", "prompt": "do {{v}}"}`, `"summary": "other"`, `"vars": {"v": null}`).bundle()
	main.Plans["sub/w.json"] = other.Plan("")
	b.acts.Bundle = func(string) (*plan.Bundle, error) { return main, nil }
	d := workflow.PromptData{Bundle: "h", Path: "w.b", Values: map[string]string{"v": "it"}}
	d.Place.File = "sub/w.json"
	d.Place = d.Place.In(1)
	slots, _, _, err := b.told("implement", "", d)
	want := "# t\n\nmain\n\nOne of its steps is the file sub/w.json: t\nother\n\nSteps:\n- a (script)\n- b (prompt)\n\nYours is w.b, step 2 of 2."
	if err != nil || slots["plan"] != want || slots["work"] != "do it" {
		t.Errorf("got %q, %q, %v", slots["plan"], slots["work"], err)
	}
}

// The description of a plan with thousands of steps is cut in a prompt.
func TestPlanIsToldShort(t *testing.T) {
	var steps []string
	for i := range 3000 {
		steps = append(steps, fmt.Sprintf(`{"id": "s%d", "prompt": "x", "title": "Some step of many"}`, i))
	}
	b := newBench(t, strings.Join(steps, ","))
	d := workflow.PromptData{Bundle: "h", Path: "s2999"}
	d.Place = d.Place.In(2999)
	slots, _, _, err := b.told("implement", "", d)
	if got := slots["plan"]; err != nil || len(got) > 17<<10 || !strings.HasSuffix(got, "\n[cut here]\n\nYours is s2999, step 3000 of 3000.") {
		t.Errorf("%d bytes, %v: %.100q", len(got), err, got)
	}
}
