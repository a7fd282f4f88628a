package journal_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// A rewritten journal reads as if its lines had been written so, and rewriting it back restores it. Damage stays damage.
func TestRewrite(t *testing.T) {
	w := emptyWorld(t, bakeryCode)
	if _, err := w.execute(t.Context(), w.options()); err == nil {
		t.Fatal("it should park")
	}
	whole := w.text("run/journal.jsonl")
	replace := func(from, to string) func([]byte) []byte {
		return func(line []byte) []byte { return bytes.ReplaceAll(line, []byte(from), []byte(to)) }
	}
	for name, text := range map[string]string{"whole": whole, "torn": whole[:len(whole)-20], "without an end": whole[:len(whole)-1]} {
		there := journal.Rewrite([]byte(text), replace(`"v":1`, `"v":1,"code":1`))
		w.write("run/journal.jsonl", string(there))
		if _, err := journal.Read(w.options().Dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if back := journal.Rewrite(there, replace(`"v":1,"code":1`, `"v":1`)); string(back) != text {
			t.Errorf("%s came back as %s, want %s", name, back, text)
		}
	}
	lines := strings.SplitAfter(whole, "\n")
	damaged := strings.Join(append(lines[:1:1], lines[2:]...), "")
	w.write("run/journal.jsonl", string(journal.Rewrite([]byte(damaged), replace(`"v":1`, `"v":1,"code":1`))))
	if _, err := journal.Read(w.options().Dir); err == nil {
		t.Error("a journal without its second line is whole once it is rewritten")
	}
}
