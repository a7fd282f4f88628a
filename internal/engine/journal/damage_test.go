package journal_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// A last line that a crash cut off is dropped; everything else is damage, reported with its line, and the file
// stays unchanged.
func TestDamage(t *testing.T) {
	lines := func(change func(l []string) []string) func(string) string {
		return func(s string) string { return strings.Join(change(strings.SplitAfter(s, "\n")), "") }
	}
	parked := emptyWorld(t, bakeryCode)
	if _, err := parked.execute(t.Context(), parked.options()); err == nil {
		t.Fatal("it should park")
	}
	whole := parked.text("run/journal.jsonl")
	for name, test := range map[string]struct {
		change func(s string) string
		line   int // the line that is reported, 0: no damage
	}{
		"nothing":             {func(s string) string { return s }, 0},
		"torn end":            {func(s string) string { return s[:len(s)-20] }, 0},
		"end without newline": {func(s string) string { return s[:len(s)-1] }, 0},
		"zeros at the end":    {func(s string) string { return s + strings.Repeat("\x00", 4096) }, 0},
		"zeros instead of line": {func(s string) string {
			i := strings.LastIndex(s[:len(s)-1], "\n")
			return s[:i+1] + strings.Repeat("\x00", 80) + "\n"
		}, 0},
		"half a page lost":      {func(s string) string { i := len(s) - 30; return s[:i-30] + strings.Repeat("\x00", 30) + s[i:] }, 0},
		"empty":                 {func(string) string { return "" }, 1},
		"first line torn":       {lines(func(l []string) []string { return []string{l[0][:40]} }), 1},
		"first line gone":       {lines(func(l []string) []string { return l[1:] }), 1},
		"flipped byte":          {func(s string) string { return strings.Replace(s, `"dough"`, `"doubt"`, 1) }, 0}, // see below
		"line gone":             {lines(func(l []string) []string { return append(l[:5:5], l[6:]...) }), 6},
		"line twice":            {lines(func(l []string) []string { return append(l[:6:6], l[5:]...) }), 7},
		"last line twice":       {lines(func(l []string) []string { return append(l, l[len(l)-2]) }), 0},
		"lines swapped":         {lines(func(l []string) []string { l[5], l[6] = l[6], l[5]; return l }), 6},
		"line torn inside":      {lines(func(l []string) []string { l[5] = l[5][:30] + "\n"; return l }), 6},
		"zeros inside":          {lines(func(l []string) []string { l[5] = strings.Repeat("\x00", 100) + "\n"; return l }), 6},
		"blank line":            {lines(func(l []string) []string { l[5] = "\n" + l[5]; return l }), 6},
		"blank line at the end": {func(s string) string { return s + "\n" }, 0},
		"text at the end":       {func(s string) string { return s + "hello" }, 0},
		"numbers at the end":    {func(s string) string { return s + "1\n" }, -1},
		"number skipped at the end": {lines(func(l []string) []string {
			n := len(l) - 1
			l[n-1] = strings.Replace(l[n-1], fmt.Sprintf(`"n":%d`, n), fmt.Sprintf(`"n":%d`, n+1), 1)
			return l
		}), -2},
		"line of another run at the end": {lines(func(l []string) []string {
			n := len(l) - 1
			return append(l, strings.Replace(strings.Replace(l[n-1], fmt.Sprintf(`"n":%d`, n), fmt.Sprintf(`"n":%d`, n+1), 1), `"p":"`, `"p":"0`, 1))
		}), -1},
		"Windows line ends": {func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }, 2},
	} {
		w := emptyWorld(t, bakeryCode)
		text := test.change(whole)
		line := test.line
		switch n := strings.Count(whole, "\n"); name {
		case "flipped byte": // the line after the changed one reveals it
			line = 1 + strings.Count(whole[:strings.Index(whole, `"dough"`)+1], "\n") + 1
		case "last line twice":
			line = n + 1
		default:
			if line < 0 {
				line = n + 2 + line
			}
		}
		if err := os.WriteFile(w.path("run/journal.jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.letter("2.json", letter{ID: "2", Signal: "agree", Data: approval{"two", "ann"}})
		_, readErr := journal.Read(w.path("run"))
		got, err := w.execute(t.Context(), w.options())
		if line == 0 {
			if readErr != nil || err != nil || !reflect.DeepEqual(got, sold) {
				t.Errorf("%s: %+v, %v, %v", name, got, err, readErr)
			}
			continue
		}
		at := fmt.Sprintf("%s:%d: journal damaged: ", w.path("run/journal.jsonl"), line)
		for _, err := range []error{err, readErr} {
			if !errors.Is(err, journal.ErrDamaged) || !strings.HasPrefix(err.Error(), at) {
				t.Errorf("%s: got %v, want %s…", name, err, at)
			}
		}
		if w.text("run/journal.jsonl") != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// Records with an unbroken chain that no engine writes, among them records of a newer engine.
func TestImpossibleRecords(t *testing.T) {
	start := `"k":"start","id":"a#1","name":"a","try":1`
	finish := `"k":"done","id":"a#1"`
	signal := `"k":"signal","id":"m","name":"s"`
	for name, records := range map[string][]string{
		"newer format":          {`"k":"run","v":2,"run":"t/1"`},
		"no format":             {`"k":"run","run":"t/1"`},
		"no run":                {start},
		"two runs":              {run, run},
		"unknown kind":          {run, `"k":"note"`},
		"no kind":               {run, `"x":1`},
		"done without start":    {run, finish},
		"done twice":            {run, start, finish, finish},
		"start after done":      {run, start, finish, `"k":"start","id":"a#1","name":"a","try":2`},
		"start that skips":      {run, `"k":"start","id":"a#1","name":"a","try":2`},
		"start twice the same":  {run, start, start},
		"id without number":     {run, `"k":"start","id":"a","name":"a","try":1`},
		"id with number 0":      {run, `"k":"start","id":"a#0","name":"a","try":1`},
		"id of another":         {run, `"k":"start","id":"b#1","name":"a","try":1`},
		"id in half a scope":    {run, `"k":"start","id":"xa#1","name":"a","try":1`},
		"no name":               {run, `"k":"start","id":"#1","name":"","try":1`},
		"message twice":         {run, signal, signal},
		"signal of nowhere":     {run, start, finish + `,"sig":7`},
		"signal for an effect":  {run, signal, start, finish + `,"sig":2`},
		"after the end":         {run, `"k":"end"`, start},
		"called off twice":      {run, `"k":"cancel"`, `"k":"cancel"`},
		"end twice":             {run, `"k":"end"`, `"k":"end"`},
		"something wrong typed": {run, `"k":"start","id":7`},
	} {
		dir := t.TempDir()
		must(os.WriteFile(dir+"/journal.jsonl", chained(records), 0o600))
		_, err := journal.Open(journal.Options{Dir: dir})
		if at := fmt.Sprintf("journal.jsonl:%d: ", len(records)); !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: got %v, want %s…", name, err, at)
		}
	}
}

const run = `"k":"run","v":1,"run":"t/1"`
