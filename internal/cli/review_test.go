package cli

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// dialog is a command on a terminal, and a person who reads and types.
type dialog struct {
	*testing.T
	cmd    *exec.Cmd
	screen *os.File

	mu    sync.Mutex
	shown strings.Builder
	more  chan struct{} // something was shown, or the output has ended
	over  bool
	read  int // how much of shown was expected so far
}

// dialog starts the real command on a terminal of its own.
func (w *gitWorld) dialog(editor string, args ...string) *dialog {
	w.Helper()
	w.write("../editor", editor)
	cmd := exec.Command(realTrellis(w.T), args...)
	cmd.Dir, cmd.Env = w.Dir, append(w.Env[1:len(w.Env):len(w.Env)], "PATH="+os.Getenv("PATH"), "EDITOR=sh "+w.path("../editor"), "TERM=dumb")
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 120})
	if err != nil {
		w.Fatal(err)
	}
	d := &dialog{T: w.T, cmd: cmd, screen: screen, more: make(chan struct{}, 1)}
	var reading sync.WaitGroup
	reading.Go(func() {
		for buffer := make([]byte, 4096); ; {
			n, err := screen.Read(buffer)
			d.mu.Lock()
			d.shown.Write(buffer[:n])
			d.over = d.over || err != nil
			d.mu.Unlock()
			select {
			case d.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	})
	w.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		screen.Close()
		reading.Wait()
	})
	return d
}

// expect waits until a text is shown after the one expected before.
func (d *dialog) expect(want string) {
	d.Helper()
	hang := time.After(15 * time.Minute)
	for {
		d.mu.Lock()
		all, over := d.shown.String(), d.over
		d.mu.Unlock()
		if at := strings.Index(all[d.read:], want); at >= 0 {
			d.read += at + len(want)
			return
		}
		if over {
			d.Fatalf("%q was not shown:\n%s", want, all)
		}
		select {
		case <-d.more:
		case <-hang:
			d.Fatalf("%q is not shown:\n%s", want, all)
		}
	}
}

// types waits for a text, and then types.
func (d *dialog) types(when, what string) {
	d.Helper()
	d.expect(when)
	if _, err := d.screen.WriteString(what); err != nil {
		d.Fatal(err)
	}
}

// ends waits for the end of the command, checks its exit code, and returns all output.
func (d *dialog) ends(code int) string {
	d.Helper()
	err := d.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		d.Fatal(err)
	}
	hang := time.After(15 * time.Minute)
	for {
		d.mu.Lock()
		all, over := d.shown.String(), d.over
		d.mu.Unlock()
		if over {
			if got := d.cmd.ProcessState.ExitCode(); got != code {
				d.Errorf("exit code %d, want %d:\n%s", got, code, all)
			}
			return all
		}
		select {
		case <-d.more:
		case <-hang:
			d.Fatalf("the terminal stays open:\n%s", all)
		}
	}
}

const reviewRoles = `roles:
  evaluate: [{answer: {decision: accept, category: "", details: fine, suggestions: [], size: large, confidence: 0.9}}]
  research:
    - answer: |
        ## implement.jsonl
        - path: greet.sh, reason: the program
        ## check.jsonl
        - path: test.sh, reason: its test
        ## Suggested Scope
        greet
        ## Verification Plan
        - test: sh test.sh
  taskspec: [{answer: {user_intent: say bye, goals: [a flag], constraints: [], artifacts: [], contexts: [], actions: [], acceptance: [it says bye], priority: normal}}]
  plan:
    - when: LOUDER
      answer: &plan
        schema_version: 1
        title: Say bye loudly
        summary: greet.sh says bye.
        requirements: [bye]
        assumptions: [guests leave by the door]
        files: [{path: greet.sh, change: edit}]
        steps:
          - {id: add_flag, type: prompt, prompt: "Let the program take --bye.", verify: "sh greet.sh --bye | grep -q Bye", covers: [it says bye]}
          - {id: run_tests, type: script, command: sh test.sh, proof: {type: test}}
        acceptance: [{criterion: it says bye, verify: "sh greet.sh --bye | grep -q Bye"}]
        out_of_scope: [good morning]
    - answer:
        <<: *plan
        title: Say bye softly
  judge: [{answer: {pass: true, feedback: "", criteria: {verification: true, atomicity: true, coverage: true, vars: true}}}]
`

const (
	asked     = "? explains) "
	planWords = "plan -n later -t backend -r bye"
)

// reviewed returns a repository in which a planned task waits for approval, and the directory of the task.
func reviewed(t *testing.T) (w *gitWorld, dir string) {
	t.Helper()
	t.Parallel()
	w = newGitWorld(t, realTrellis(t))
	w.write(".trellis/rehearsal.yaml", reviewRoles)
	w.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [sh test.sh]\n")
	if code := w.trellis(append(strings.Fields(planWords), "--json")...); code != command.ExitWaiting {
		t.Fatalf("exit code %d\n%s", code, w.said)
	}
	dirs, err := filepath.Glob(w.path(".trellis/tasks/*-later"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("got %q, %v", dirs, err)
	}
	return w, dirs[0]
}

func (w *gitWorld) holds(path, text string) {
	w.Helper()
	data, err := os.ReadFile(path)
	if (text == "") != (err != nil) || !strings.Contains(string(data), text) {
		w.Errorf("%s: %v, want %q in\n%s", filepath.Base(path), err, text, data)
	}
}

// plan shows a plan that needs approval as soon as it exists. There it can be revised, is shown again, and can be accepted.
func TestPlanEndsInAReview(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t, realTrellis(t))
	w.write(".trellis/rehearsal.yaml", reviewRoles)
	w.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [sh test.sh]\n")
	d := w.dialog("", strings.Fields(planWords)...)
	d.expect("Say bye softly")
	for _, want := range []string{"A1 it says bye", "$ sh greet.sh --bye | grep -q Bye", "add_flag (prompt)", "edit greet.sh", "guests leave by the door", "good morning", "size large", "the work is large"} {
		d.expect(want)
	}
	d.types(asked, "what\n")
	d.expect(`"what" is not one of these:`)
	d.expect("a  accept  it may be built")
	d.types(asked, "r\n")
	d.types("what should be different?", "LOUDER, please\n")
	d.expect("Say bye loudly")
	d.types(asked, "Accept\n")
	said := d.ends(command.ExitDone)
	if !regexp.MustCompile(`is approved by Ada <a@example\.org>; next: trellis start \S+-later\r\n$`).MatchString(said) {
		t.Errorf("it ends with\n%s", said)
	}
	w.said = ""
	if code := w.trellis("review", "later", "--json"); code != command.ExitDone {
		t.Fatalf("exit code %d\n%s", code, w.said)
	}
	var shown struct {
		Status, Hash, Title string
		Asked               bool
		Agreed              []string
	}
	if err := json.NewDecoder(strings.NewReader(w.said[strings.Index(w.said, "{"):])).Decode(&shown); err != nil {
		t.Fatalf("%v\n%s", err, w.said)
	}
	if shown.Status != "ready" || shown.Asked || shown.Title != "Say bye loudly" || strings.Join(shown.Agreed, "") != "Ada <a@example.org>" {
		t.Errorf("got %+v", shown)
	}
	dirs, _ := filepath.Glob(w.path(".trellis/tasks/*-later"))
	w.holds(filepath.Join(dirs[0], "approvals.jsonl"), shown.Hash)
}

// An approval applies to what was shown: if a file is edited before the answer, the new version is shown, and nothing is approved.
func TestReviewOfWhatWasEdited(t *testing.T) {
	w, dir := reviewed(t)
	d := w.dialog("", "review", "later")
	d.expect(asked)
	prd := filepath.Join(dir, "prd.md")
	text, err := os.ReadFile(prd)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(prd, append(text, "\n## Open questions\n\n- Who opens the door?\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	d.types("", "a\n")
	d.expect("a file was changed since this was shown: nothing is approved")
	d.expect("? Who opens the door?")
	d.expect(asked)
	w.holds(filepath.Join(dir, "approvals.jsonl"), "")
	d.types("", "a\n")
	d.ends(command.ExitDone)
	w.holds(filepath.Join(dir, "approvals.jsonl"), `"decision":"approve"`)
}

// What a person writes in the editor is checked and shown again. Neither their text nor the previous one is lost.
func TestReviewEdits(t *testing.T) {
	w, dir := reviewed(t)
	prd := filepath.Join(dir, "prd.md")
	before, err := os.ReadFile(prd)
	if err != nil {
		t.Fatal(err)
	}
	same := func() {
		t.Helper()
		if now, err := os.ReadFile(prd); err != nil || string(now) != string(before) {
			t.Errorf("it says now, %v\n%s", err, now)
		}
	}
	d := w.dialog(`echo "# Bye" >"$1"; echo "## Acceptance Criteria" >>"$1"; echo "- [ ] TBD" >>"$1"`+"\n", "review", "later")
	d.types(asked, "edit prd\n")
	d.expect("prd.md:3: ")
	d.types("it is not saved yet", "d\n")
	d.expect("stays as it was")
	same()
	d.expect(asked)
	w.write("../editor", `echo half >"$1"; kill -9 $$`+"\n")
	d.types("", "e prd\n")
	d.expect("; what it left is in ")
	d.expect("\r\n")
	d.expect(asked)
	same()
	w.write("../editor", `printf '\n## Open questions\n\n1. Which door?\n' >>"$1"`+"\n")
	d.types("", "e\n")
	d.types("which file?", "\n")
	d.expect("prd.md is saved")
	d.expect("? Which door?")
	d.types(asked, "\x04")
	said := d.ends(command.ExitWaiting)
	if !strings.Contains(said, "next: trellis approve ") {
		t.Errorf("it does not say how to answer:\n%s", said)
	}
	kept := regexp.MustCompile(`what it left is in (\S+)`).FindStringSubmatch(said)
	if kept == nil {
		t.Fatalf("it does not say where the draft is:\n%s", said)
	}
	w.holds(kept[1], "half")
	w.holds(prd, "Which door?")
	w.holds(filepath.Join(dir, "approvals.jsonl"), "")
}

func TestReviewRejects(t *testing.T) {
	w, dir := reviewed(t)
	d := w.dialog("", "review", "later")
	d.types(asked, "x\n")
	d.types("why?", "\n")
	d.types(asked, "x the door is shut\n")
	d.ends(command.ExitDone)
	w.holds(filepath.Join(dir, "REJECTED.md"), "the door is shut")
	w.holds(filepath.Join(dir, "task.json"), `"rejected"`)
}

// Ctrl-C changes nothing, even in the middle of an answer. Feedback that was not used is kept in a file that is named.
func TestReviewIsLeft(t *testing.T) {
	w, dir := reviewed(t)
	d := w.dialog("", "review", "later")
	d.types(asked, "acc\x03")
	if said := d.ends(command.ExitInterrupted); !strings.Contains(said, "next: trellis review "+filepath.Base(dir)) {
		t.Errorf("it ends with\n%s", said)
	}
	w.holds(filepath.Join(dir, "approvals.jsonl"), "")
	w.holds(filepath.Join(dir, "task.json"), `"waiting"`)
	d = w.dialog(`echo "half a thought" >"$1"; exit 3`+"\n", "review", "later")
	d.types(asked, "revise\n")
	d.types("what should be different?", "\n")
	d.expect("failed: exit status 3; what it left is in ")
	d.types(asked, "l\n")
	said := d.ends(command.ExitWaiting)
	w.holds(regexp.MustCompile(`what it left is in (\S+)`).FindStringSubmatch(said)[1], "half a thought")
}

// Ctrl-C at the question about a text with mistakes ends edit at once. The text is kept in a file that is named.
func TestEditIsLeft(t *testing.T) {
	w, dir := reviewed(t)
	d := w.dialog(`echo "{" >"$1"`+"\n", "edit", "later", "task")
	d.types("[e]dit again, [d]iscard, [k]eep? ", "\x03")
	said := d.ends(command.ExitInterrupted)
	kept := regexp.MustCompile(`stopped by Ctrl-C; what you wrote is in (\S+)`).FindStringSubmatch(said)
	if len(kept) < 2 || !strings.Contains(said, "next: trellis edit "+filepath.Base(dir)+" task") {
		t.Fatalf("it ends with\n%s", said)
	}
	w.holds(kept[1], "{")
	w.holds(filepath.Join(dir, "task.json"), `"waiting"`)

	d = w.dialog(`echo "{" >"$1"; kill -HUP $(ps -o ppid= -p $PPID)`+"\n", "edit", "later", "task") // the terminal is closed before the question
	d.ends(129)
	d = w.dialog(`echo "{" >"$1"; kill -INT $(ps -o ppid= -p $PPID)`+"\n", "edit", "later", "task") // which is for the editor
	d.types("[e]dit again, [d]iscard, [k]eep? ", "d\n")
	d.ends(command.ExitDone)
}

// Review offers only what can be done: a plan that is approved already is not offered for approval again. After the planning stage it
// only names the next step.
func TestReviewOffersWhatCanBeDone(t *testing.T) {
	w, dir := reviewed(t)
	if code := w.trellis("approve", "later"); code != command.ExitDone {
		t.Fatalf("exit code %d\n%s", code, w.said)
	}
	d := w.dialog("", "review", "later")
	d.expect("(r revise, e edit, l later, ? explains)")
	d.types("", "a\n")
	d.expect(`"a" is not one of these:`)
	d.types(asked, "l\n")
	if said := d.ends(command.ExitDone); !strings.Contains(said, "nothing was changed; next: trellis start "+filepath.Base(dir)) {
		t.Errorf("it ends with\n%s", said)
	}
	if code := w.trellis("cancel", "later"); code != command.ExitDone {
		t.Fatalf("exit code %d\n%s", code, w.said)
	}
	d = w.dialog("", "review", "later")
	want := regexp.MustCompile(` was approved by [^;]+ at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ; next: trellis retry ` + filepath.Base(dir))
	if said := d.ends(command.ExitDone); !want.MatchString(said) {
		t.Errorf("it ends with\n%s", said)
	}
	w.write(filepath.Join(".trellis/tasks", filepath.Base(dir), "approvals.jsonl"), "")
	d = w.dialog("", "review", "later")
	if said := d.ends(command.ExitDone); !strings.Contains(said, "needs no approval; next: trellis retry "+filepath.Base(dir)) {
		t.Errorf("it ends with\n%s", said)
	}
}

// Broken settings are reported before the editor is opened, since nothing could be planned with them.
func TestNothingIsWrittenForBrokenSettings(t *testing.T) {
	w, _ := reviewed(t)
	d := w.dialog("touch ../opened\n", "review", "later")
	d.expect(asked)
	w.write(".trellis/config.yaml", "agents: [\n")
	d.types("", "revise\n")
	if said := d.ends(command.ExitUsage); !strings.Contains(said, "config.yaml") {
		t.Errorf("nothing is said of the settings:\n%s", said)
	}
	d = w.dialog("touch ../opened\n", "plan")
	if said := d.ends(command.ExitUsage); !strings.Contains(said, "config.yaml") {
		t.Errorf("nothing is said of the settings:\n%s", said)
	}
	if _, err := os.Stat(w.path("../opened")); err == nil {
		t.Error("the editor was opened")
	}
}

// Without a terminal, review shows the plan and the commands for an answer.
func TestReviewWithoutATerminal(t *testing.T) {
	w, _ := reviewed(t)
	w.said = ""
	if code := w.trellis("review", "later"); code != command.ExitWaiting {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"A1 it says bye", "next: trellis approve ", "next: trellis reject "} {
		if !strings.Contains(w.said, want) {
			t.Errorf("%q is not said:\n%s", want, w.said)
		}
	}
}

// Without a requirement, plan opens the editor: headings are kept and the lines of the form are not. If the planning can't begin, the
// text is kept.
func TestPlanIsWrittenInTheEditor(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t, realTrellis(t))
	w.write(".trellis/rehearsal.yaml", reviewRoles)
	w.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [sh test.sh]\n")
	d := w.dialog("exit 0\n", "plan")
	d.expect("nothing was written, so nothing is planned")
	d.ends(command.ExitUsage)
	drafts := func() []string {
		list, err := filepath.Glob(w.path("../tmp/trellis-edit-*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	before := drafts() // the draft of an editor that returned at once is kept
	const write = `{ printf 'Say bye to all guests who leave the house\n\n# Not so\n\nNobody waves.\n'; cat "$1"; } >"$1~"; mv "$1~" "$1"` + "\n"
	d = w.dialog(write, "plan")
	d.expect("the name becomes say-bye-to-all-guests-who")
	d.expect("type backend, by the files that the research found")
	d.types(asked, "later\n")
	d.ends(command.ExitWaiting)
	dirs, err := filepath.Glob(w.path(".trellis/tasks/*-say-bye-to-all-guests-who"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("got %q, %v", dirs, err)
	}
	if text, err := os.ReadFile(filepath.Join(dirs[0], "requirement.md")); err != nil || string(text) != "Say bye to all guests who leave the house\n\n# Not so\n\nNobody waves.\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if left := drafts(); !slices.Equal(left, before) {
		t.Errorf("drafts are left: %q, want %q", left, before)
	}
	d = w.dialog(write, "plan") // the name is taken
	said := d.ends(command.ExitUsage)
	kept := regexp.MustCompile(`what you wrote is in (\S+)`).FindStringSubmatch(said)
	if kept == nil {
		t.Fatalf("it does not say where the text is:\n%s", said)
	}
	w.holds(kept[1], "Nobody waves.")
}
