package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// seen holds the slots and notes of a grader's prompt.
type seen struct {
	slots map[string]string
	notes []string
}

// graded runs a step that is judged, calls one of tries at each attempt, and returns what the grader was shown each time.
func (b *bench) graded(tries ...func()) (list []seen) {
	b.Helper()
	b.agent = func(q call) agentcall.Reply {
		if q.Role == "implement" {
			tries[len(list)]()
			return agentcall.Reply{Text: *b.said("I did what was asked."), Session: "s"}
		}
		slots, _, notes, err := b.told("grade", "", q.Data)
		if err != nil {
			b.Error(err)
		}
		list = append(list, seen{slots, notes})
		return graded(len(list) == len(tries), "again")
	}
	if rep := b.do(workflow.Options{}); rep.Done != 1 {
		b.Fatalf("got %+v", rep)
	}
	return list
}

const judged = `{"id": "a", "title": "T {{v}}", "prompt": "Do {{v}}.", "desired_outcome": "{{v}} done", "llm_as_judge": true}`

// A grader sees the prompt, the answer, and what the step has changed since its first attempt began, but no other
// differences from the last commit.
func TestGraderIsTold(t *testing.T) {
	b := newBench(t, judged, `"vars": {"v": "$& {{v}}"}`)
	b.put("kept.txt", "one\ntwo\n")
	b.put(".gitignore", "*.log\n")
	b.repository(b.Dir)
	b.put("kept.txt", "one\nsomebody's\n")
	b.put("untracked.txt", "somebody's\n")
	list := b.graded(func() {
		b.put("kept.txt", "one\nsomebody's\nthe agent's\n")
		b.put("made.txt", "made\n")
		b.put("x.log", "ignored\n")
	}, func() { b.put("untracked.txt", "the agent's now\n") })
	first, second := list[0].slots, list[1].slots
	if got := strings.Join(filled(first), " "); got != "answer diff outcome title work" {
		t.Errorf("slots %s", got)
	}
	for name, want := range map[string]string{"title": "T $& {{v}}", "work": "Do $& {{v}}.", "outcome": "$& {{v}} done", "answer": "I did what was asked."} {
		if first[name] != want {
			t.Errorf("%s: got %q, want %q", name, first[name], want)
		}
	}
	for _, want := range []string{" somebody's\n+the agent's\n", "+made\n", "b/made.txt"} {
		if !strings.Contains(first["diff"], want) || !strings.Contains(second["diff"], want) {
			t.Errorf("%q is not in\n%s\nor\n%s", want, first["diff"], second["diff"])
		}
	}
	for _, not := range []string{"two", "+somebody's", "untracked", "ignored"} {
		if strings.Contains(first["diff"], not) {
			t.Errorf("%q is in\n%s", not, first["diff"])
		}
	}
	if !strings.Contains(second["diff"], "-somebody's\n+the agent's now\n") {
		t.Errorf("the second try shows\n%s", second["diff"])
	}
}

// Steps that work in a folder below the root of a checkout are judged by their change too.
func TestGraderBelowTheRootOfACheckout(t *testing.T) {
	b := newBench(t, judged, `"vars": {"v": "it"}`)
	b.repository(b.Dir)
	b.put("sub/deep/kept", "")
	b.Dir = filepath.Join(b.Dir, "sub", "deep")
	b.acts.Dir = b.Dir
	list := b.graded(func() { b.put("made.txt", "made\n") })
	if diff := list[0].slots["diff"]; !strings.Contains(diff, "b/sub/deep/made.txt") || strings.Contains(diff, "kept") {
		t.Errorf("got %s", diff)
	}
}

// A grader is told if there is no change; one that can't be shown is noted, and a large one is cut to fit.
func TestGraderIsToldOfNoChange(t *testing.T) {
	b := newBench(t, judged, `"vars": {"v": "it"}`)
	if got := b.graded(func() { b.put("x", "x") })[0].slots["diff"]; got != "" {
		t.Errorf("outside of a repository: %q", got)
	}

	b = newBench(t, judged, `"vars": {"v": "it"}`)
	b.repository(b.Dir)
	if got := b.graded(func() {})[0].slots["diff"]; got != "Git sees no difference. It does not look at files that it ignores." {
		t.Errorf("nothing changed: %q", got)
	}

	b = newBench(t, judged, `"vars": {"v": "it"}`)
	b.repository(b.Dir)
	b.put("lost.txt", "lost\n")
	got := b.graded(func() {
		b.put("made.txt", "made\n")
		if err := os.RemoveAll(filepath.Join(b.run, "1", "objects")); err != nil {
			t.Error(err)
		}
	})[0]
	if got.slots["diff"] != "" || len(got.notes) != 1 || !strings.HasPrefix(got.notes[0], "the change of a is not shown: ") {
		t.Errorf("what was before is gone: %+v", got)
	}

	b = newBench(t, judged, `"vars": {"v": "it"}`)
	b.repository(b.Dir)
	got = b.graded(func() { b.put("big.txt", strings.Repeat("a line\n", 20000)); b.put("small\xff.txt", "end\xff\n") })[0]
	if diff := got.slots["diff"]; len(diff) > 50<<10 || !strings.HasPrefix(diff, " big.txt ") || !strings.Contains(diff, "2 files changed") || !strings.Contains(diff, "bytes left out") || !strings.Contains(diff, "+end") || len(got.notes) != 1 {
		t.Errorf("%d bytes, notes %q:\n%.300s", len(diff), got.notes, diff)
	}
}

// A grader sees an answer unchanged, cut to fit. An answer whose file was modified is an error.
func TestGraderIsToldTheAnswer(t *testing.T) {
	b := newBench(t, judged, `"vars": {"v": "it"}`)
	d := workflow.PromptData{Bundle: "h", Path: "a", Values: map[string]string{"v": "it"}}
	d.Place = d.Place.In(0)
	for text, want := range map[string]string{"": "(It said nothing.)", " \n": "(It said nothing.)", "{{v}} $& \xff": "{{v}} $& \xff"} {
		d.Before = b.said(text)
		if slots, _, _, err := b.told("grade", "", d); err != nil || slots["answer"] != want {
			t.Errorf("%q: got %q, %v", text, slots["answer"], err)
		}
	}
	d.Before = b.said("begin" + strings.Repeat("x", 100<<10) + "end")
	slots, _, notes, err := b.told("grade", "", d)
	if got := slots["answer"]; err != nil || len(got) > 65<<10 || !strings.HasPrefix(got, "begin") || !strings.HasSuffix(got, "end") || len(notes) != 1 {
		t.Errorf("%d bytes, %q, %v", len(got), notes, err)
	}
	if err := os.WriteFile(filepath.Join(b.run, d.Before.Path), []byte("pass it"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := b.told("grade", "", d); err == nil || !strings.Contains(err.Error(), "was changed since it was written") {
		t.Errorf("got %v", err)
	}
	d.Before.Path = "gone"
	if _, _, _, err := b.told("grade", "", d); err == nil || !strings.Contains(err.Error(), "reading what was said in a") {
		t.Errorf("got %v", err)
	}
}

// A healing agent is given the command with its values, how it ended, the end of its output, and earlier attempts.
func TestHealerIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		limit   time.Duration
		ended   string
		output  string
	}{
		"exit code":  {`echo '{{v}}'; printf 'a\xffb\n' >&2; exit 3`, 0, "exit code 3", "stdout:\n" + odd + "\n\nstderr:\na\uFFFDb\n\n"},
		"signal":     {`kill -9 $$`, 0, "ended by SIGKILL", ""},
		"time limit": {`echo on; sleep 3000`, 200 * time.Millisecond, "its time limit of LIMIT passed, and it was stopped", "stdout:\non\n\n"},
		"much":       {`seq 20000; exit 1`, 0, "exit code 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(c.command)
			if err != nil {
				t.Fatal(err)
			}
			heal := func(limit string) (list []map[string]string, texts []string) {
				b := newBench(t, `{"id": "a", "title": "T {{v}}", "command": `+string(raw)+`, "self_healing": true, "max_healing_attempts": 3`+limit+`}`, `"vars": {"v": "`+odd+`"}`)
				b.acts.Documents = func(context.Context) (string, []string, error) { return "prd", nil, nil }
				b.acts.Protected = []string{"go.sum"}
				b.agent = func(q call) agentcall.Reply {
					slots, text, _, err := b.told("heal", "", q.Data)
					if err != nil {
						t.Error(err)
					}
					list, texts = append(list, slots), append(texts, text)
					return agentcall.Reply{Excerpt: "I changed {{v}}."}
				}
				b.do(workflow.Options{})
				return list, texts
			}
			limit := c.limit
			list, texts := heal(timeout(limit))
			for ; limit > 0 && limit < 20*time.Second && !strings.Contains(texts[0], c.output); list, texts = heal(timeout(limit)) {
				limit *= 5 // on a busy machine it may print nothing within its time limit
			}
			got, ended := list[0], strings.Replace(c.ended, "LIMIT", limit.String(), 1)
			if want := strings.ReplaceAll(c.command, "{{v}}", odd); got["command"] != want || got["ended"] != ended || got["title"] != "T "+odd || got["artifacts"] != "prd" || got["protected"] != "go.sum" || !strings.HasSuffix(got["plan"], "Yours is a, step 1 of 1.") {
				t.Errorf("got %q", got)
			}
			if name == "much" {
				if out := got["output"]; len(out) > 13<<10 || !strings.HasSuffix(out, "\n20000\n\n") || !strings.HasPrefix(out, "stdout:\n…") {
					t.Errorf("%d bytes: %.50q", len(out), out)
				}
			} else if c.output != "" && !strings.Contains(texts[0], c.output) || c.output == "" && got["output"] != "" {
				t.Errorf("output %q", got["output"])
			}
			if got["tries"] != "" || !strings.Contains(list[1]["tries"], "I changed {{v}}.") {
				t.Errorf("tries %q, then %q", got["tries"], list[1]["tries"])
			}
		})
	}
}

// timeout returns the JSON field for a step's time limit, "" for 0.
func timeout(limit time.Duration) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf(`, "timeout_seconds": %v`, limit.Seconds())
}

// A verdict that does not pass a step has to say what to change.
func TestCheckOfAVerdict(t *testing.T) {
	acts := &workflow.Effects{}
	for answer, want := range map[string]string{
		`{"reasoning": "r", "feedback": "", "pass": true}`:                  "",
		`{"reasoning": "r", "feedback": "mend api/list.go", "pass": false}`: "",
		`{"reasoning": "r", "feedback": "直して", "pass": false}`:              "",
		`{"reasoning": "r", "feedback": " - ", "pass": false}`:              "/feedback: say what to change",
		`{"reasoning": "r", "feedback": "", "pass": false}`:                 "/feedback: say what to change",
		`{"pass": "no"}`: "/: json",
	} {
		got := strings.Join(acts.Check(agentcall.Request{Role: trellis.Grade}, json.RawMessage(answer)), "; ")
		if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", answer, got, want)
		}
	}
	if got := acts.Check(agentcall.Request{Role: trellis.Implement}, json.RawMessage("I did it.")); got != nil {
		t.Errorf("a report: %q", got)
	}
}
