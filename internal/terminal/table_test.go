package terminal_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	letters "github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

var update = flag.Bool("update", false, "write what is printed to testdata")

// wide returns tasks with long names, remarks and titles, and characters of two columns.
func wide() []status.Task {
	ago := func(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339) }
	return []status.Task{
		{ID: "02-01-auth", Status: trellis.InProgress, Priority: "P1", Phase: "check", Round: 2, Since: ago(time.Minute), Title: "Log in with mail and password"},
		{ID: "02-01-" + strings.Repeat("x", 30), Status: trellis.Review, Priority: "P2", Since: ago(50 * time.Hour), Title: "A title that is as long as people write them when nobody tells them where to stop, and then some more of it"},
		{ID: "02-02-login-page", Status: trellis.Failed, Priority: "P0", Failure: status.Failure{Code: trellis.VerifyFailed}, Since: ago(0), Title: "为登录页面添加一个按钮，并在提交之前检查邮件地址是否有效，然后显示结果"},
		{ID: "02-03-queue", Status: trellis.Ready, Priority: "P2", WaitingFor: status.ForSlot, Slots: "3 of 3 slots busy", Since: ago(0), Title: "Wait for a slot 🚀"},
		{ID: "02-04-bad", Problems: []trellis.Problem{{File: ".trellis/tasks/02-04-bad/task.json", Line: 3, Message: "no comma"}}},
	}
}

// A table fits each width: names of the usual length and statuses are never cut, and titles get the remaining columns. In a file
// nothing is cut.
func TestTableWidths(t *testing.T) {
	for _, width := range []int{60, 80, 140, 0} {
		var got bytes.Buffer
		if err := terminal.Table(&got, wide(), terminal.Style{Width: width}, noon); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(got.String()) {
			if n := letters.Width(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%d columns: a line has %d: %s", width, n, line)
			}
		}
		for _, of := range wide() {
			if !strings.Contains(got.String(), "\n"+of.ID+" ") || !strings.Contains(got.String(), " "+string(of.Status)+" ") {
				t.Errorf("%d columns: %s or its status is cut in\n%s", width, of.ID, &got)
			}
			if width == 0 && !strings.Contains(got.String(), of.Title+"\n") {
				t.Errorf("in a file the title of %s is cut in\n%s", of.ID, &got)
			}
		}
		golden(t, fmt.Sprintf("table_%d.txt", width), got.Bytes())
	}
}

// A table shows what a task waits for if titles leave room, and why a planning is not at work.
func TestTableRemarks(t *testing.T) {
	tasks := []status.Task{
		{ID: "02-01-" + strings.Repeat("x", 30), Status: trellis.Waiting, Priority: "P2", WaitingFor: "approval", Title: "Say bye"},
		{ID: "02-02-b", Status: trellis.Ready, Priority: "P2", WaitingFor: status.ForWatcher, Title: "Say it softly"},
		{ID: "02-03-c", Status: trellis.Planning, Priority: "P2", Failure: status.Failure{Code: trellis.AgentExit}, Title: "c"},
		{ID: ".new-02-04-d", Status: trellis.Planning, Priority: "P2", CutOff: true, Title: "d"},
		{ID: ".new-02-05-e", Status: trellis.Planning, Priority: "P2", HeldBy: &status.Holder{PID: 1}, Title: "e"},
		{ID: "02-06-f", Status: trellis.Planning, Priority: "P2", CutOff: true, Title: "again, and killed"},
		{ID: "02-07-g", Status: trellis.Planning, Priority: "P2", HeldBy: &status.Holder{PID: 1}, Title: "again"},
		{ID: "02-08-h", Status: trellis.Planning, Priority: "P2", Title: "by hand"},
	}
	var got bytes.Buffer
	if err := terminal.Table(&got, tasks, terminal.Style{Width: 80}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"02-01-x": "approval", "02-02-b": "not started:…", "02-03-c": "agent_exit", "02-04-d": "cut off:.*", "02-05-e": "at work", "02-06-f": "cut off:.*", "02-07-g": "at work", "02-08-h": "by"} {
		if !regexp.MustCompile(`(?m)^` + id + `\S* +(waiting|ready|planning) +` + want + ` `).MatchString(got.String()) {
			t.Errorf("want %q of %s in\n%s", want, id, &got)
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func TestPaint(t *testing.T) {
	for _, c := range []struct {
		s, colour string
		shown     bool
		want      string
	}{{"a", "31", true, "\x1b[31ma\x1b[0m"}, {"a", "31", false, "a"}, {"a", "", true, "a"}, {"", "31", true, ""}} {
		if got := terminal.Paint(c.s, c.colour, c.shown); got != c.want {
			t.Errorf("%q in %q, shown %v: got %q, want %q", c.s, c.colour, c.shown, got, c.want)
		}
	}
}
