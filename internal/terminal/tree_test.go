package terminal_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	format "github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// outline is a plan with a loop and a group.
var outline = []format.Line{
	{Path: "find", Kind: format.Script, Does: "grep -rn x ."},
	{Path: "add", Kind: format.Prompt, Does: "Add limit."},
	{Path: "each", Kind: format.Group, Loop: "{{item}}: each line of `cat list`"}, {Path: "each.build", Kind: format.Script, Depth: 1, Does: "go build"},
	{Path: "g", Kind: format.Group}, {Path: "g.one", Kind: format.Script, Depth: 1, Does: "true"}, {Path: "g.two", Kind: format.Script, Depth: 1, Does: "false"},
}

// follow returns a Live that follows a run of these steps.
func follow(w io.Writer, style terminal.Style, isTerminal bool, title string, steps []format.Line, past ...workflow.Event) telling {
	t := show(w, style, isTerminal)
	t.Follow(title, steps, past)
	return t
}

func (t telling) begin(path, kind string) {
	t.step("", workflow.Event{Type: workflow.StepStarted, At: time.Now(), Step: path, Kind: kind})
}

func (t telling) round(path string, n, of int, item string) {
	t.step("", workflow.Event{Type: workflow.StepIteration, At: time.Now(), Step: path, Kind: format.Group, Round: n, Of: of, Item: &item})
}

func (t telling) end(path string, state workflow.State, seconds float64, why string) {
	t.step("", workflow.Event{Type: workflow.StepFinished, At: time.Now(), Step: path, State: state, Seconds: seconds, Text: why})
}

func (t telling) says(path, stream, text string) {
	t.step("", workflow.Event{Type: workflow.StepOutput, At: time.Now(), Step: path, Stream: stream, Text: text})
}

// pass lets time pass until the screen has been drawn again.
func pass(d time.Duration) { time.Sleep(d + time.Millisecond); synctest.Wait() }

func TestTreeOnTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		tr := follow(s, terminal.Style{Width: 60}, true, "Add pagination", outline)
		tr.begin("find", format.Script)
		tr.says("find", "stdout", "one\ntwo\n")
		pass(time.Second)
		s.want(t, "Add pagination: 1s · 0 of 4 steps", "▸ find · 1s · two", "· add · Add limit.", "· each", "· g")
		tr.end("find", workflow.Done, 1.2, "")
		tr.begin("add", format.Prompt)
		tr.step("", workflow.Event{Type: workflow.StepOutput, Step: "add", Stream: "implement", Tool: "edit", Text: "list.go"})
		tr.step("", workflow.Event{Type: workflow.StepOutput, Step: "add", Stream: "implement", Usage: &trellis.Usage{InputTokens: 1500}})
		pass(4 * time.Second)
		s.want(t, "Add pagination: 5s · 1 of 4 steps · 1.5k tokens", "✓ find · 1.2s", "▸ add · 4s · implement → edit list.go", "· each", "· g")
		no := false
		tr.step("", workflow.Event{Type: workflow.StepJudge, Step: "add", Attempt: 1, Pass: &no, Text: "offset is\nmissing"})
		s.want(t, "Add pagination: 5s · 1 of 4 steps · 1.5k tokens", "✓ find · 1.2s", "▸ add · 4s · judge: no, attempt 1: offset is missing", "· each", "· g")
		tr.end("add", workflow.Done, 4, "")
		tr.begin("each", format.Group)
		tr.round("each.1", 1, 3, "api")
		tr.round("each.2", 2, 3, "cli")
		tr.begin("each.2.build", format.Script)
		tr.end("each.1", workflow.Done, 0, "")
		s.want(t, "Add pagination: 5s · 2 of 4 steps · 1.5k tokens", "✓ find · 1.2s", "✓ add · 4.0s", "▸ each · 0s · 1 of 3", "  ▸ each.2 · 0s · cli", "    ▸ build · 0s", "· g")
		tr.says("each.2.build", "stderr", "cannot find x")
		tr.end("each.2.build", workflow.Failed, 1, "its command exited with 2")
		tr.end("each.2", workflow.Failed, 1, "its step each.2.build failed: its command exited with 2")
		tr.end("each", workflow.Failed, 1, "1 of 3 rounds failed")
		tr.Close()
		s.want(t, "trellis: each.2.build: failed: its command exited with 2", "trellis:   cannot find x")
	})
}

// A tree that is too high for the terminal shows the steps at work, and counts the others.
func TestTreeOnALowTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []format.Line
		for i := range 40 {
			many = append(many, format.Line{Path: fmt.Sprintf("s%d", i), Kind: format.Script})
		}
		s := &screen{}
		tr := follow(s, terminal.Style{Width: 60, Height: 7}, true, "t", many)
		for i := range 20 {
			tr.begin(fmt.Sprintf("s%d", i), format.Script)
			if i < 18 {
				tr.end(fmt.Sprintf("s%d", i), workflow.Done, 1, "")
			}
		}
		s.want(t, "t: 0s · 18 of 40 steps", "✓ 18 done", "▸ s18 · 0s", "▸ s19 · 0s", "· 20 to come")
		for i := 20; i < 30; i++ {
			tr.begin(fmt.Sprintf("s%d", i), format.Script)
		}
		s.want(t, "t: 0s · 18 of 40 steps", "✓ 18 done", "▸ s18 · 0s", "▸ s19 · 0s", "▸ s20 · 0s", "▸ and 10 more")
		tr.Close()
		s.want(t)
	})
}

// Steps that ended before the tree is shown have their result in it, and are not reported as new.
func TestTreeOfAResumedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{}
		tr := follow(s, terminal.Style{Width: 60}, true, "t", outline[:2],
			workflow.Event{Type: workflow.StepStarted, Step: "find"}, workflow.Event{Type: workflow.StepFinished, Step: "find", State: workflow.Failed, Text: "it failed", Kind: format.Script})
		s.want(t, "t: 0s · 1 of 2 steps", "✗ find · it failed", "· add · Add limit.")
		tr.Close()
	})
}

// Without a terminal the steps are shown as lines, with all output and without escape sequences.
func TestTreeInAFile(t *testing.T) {
	var out bytes.Buffer
	long := format.Line{Path: "long", Kind: format.Script, Does: "echo " + strings.Repeat("x", 900000)}
	tr := follow(&out, terminal.Style{}, false, "t", append(outline[:len(outline):len(outline)], long))
	tr.begin("find", format.Script)
	tr.says("find", "stdout", "one\ntwo \x1b[2J")
	tr.end("find", workflow.Done, 1.2, "")
	tr.begin("each", format.Group)
	tr.round("each.1", 1, 2, "api")
	tr.begin("each.1.build", format.Script)
	tr.step("", workflow.Event{Type: workflow.StepHealing, Step: "each.1.build", Attempt: 1, Code: 3, State: workflow.Running})
	tr.says("each.1.build", "log", "a message")
	tr.step("", workflow.Event{Type: workflow.StepOutput, Step: "g", Stream: "approval", State: workflow.Waiting, Text: "Publish?"})
	tr.end("each.1.build", workflow.Failed, 2, "its command exited with 3")
	tr.end("g", workflow.Done, 0, "") // begun by another process, so that its duration is unknown
	tr.begin("long", format.Script)
	tr.Close()
	want := "trellis: find: grep -rn x .\nfind | one\nfind | two ␛[2J\ntrellis: find: done in 1.2s\ntrellis: each\ntrellis: each.1: api\ntrellis: each.1.build\n" +
		"trellis: each.1.build: attempt 1 exited with 3, healing\ntrellis: each.1.build: a message\ntrellis: g: asks: Publish?\ntrellis: each.1.build: failed: its command exited with 3\ntrellis: g: done\n" +
		"trellis: long: echo " + strings.Repeat("x", 495) + "…\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSteps(t *testing.T) {
	var out bytes.Buffer
	err := terminal.Steps(&out, []format.Line{{Path: "a", Kind: format.Script, Does: "go build", Verify: "test -e x", After: []string{}}, {Path: "b", Kind: format.Approval, Title: "Publish?", Asks: true, After: []string{"a"}},
		{Path: "g", Kind: format.Group, Loop: "{{i}}: 1 to 3", After: []string{"b"}}, {Path: "g.x", Depth: 1, Kind: format.Prompt, Does: "Do it.", After: []string{}}, {Path: "z", Kind: format.Log, Does: "hi", After: []string{"a"}}})
	want := "a (script)\n    runs     go build\n    verify   test -e x\nb (approval): Publish?\n    waits    for a person's approval\ng (group)\n    for      {{i}}: 1 to 3\n" +
		"  g.x (prompt)\n      asks     Do it.\nz (log)\n    says     hi\n    after    a\n"
	if got := out.String(); err != nil || got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("it steers the terminal")
	}
}
