package compat

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

func TestMain(m *testing.M) { gittest.VerifyTestMain(m) }

// Runs that an earlier version began are finished by this one: from each moment at which a run can be cut off it comes to the same
// end, by the same activities, and repeats nothing that was done. With TRELLIS_RECORD=1 the cases are recorded instead.
func TestRecordedRunsAreFinished(t *testing.T) {
	t.Parallel()
	for name, c := range cases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if recording() {
				c.record(t, name)
				return
			}
			a := readArchive(t, name)
			for i, cut := range a.cuts {
				if i%soak.Every(2) != 0 { // a later cut reads the same records too, and begins another activity again
					continue
				}
				t.Run(cut.name, func(t *testing.T) {
					t.Parallel()
					c.finish(t, a, cut)
				})
			}
		})
	}
}

func (c testCase) record(t *testing.T, name string) {
	w := newWorld(t)
	for path, text := range program {
		w.write("repo/"+path, text)
	}
	for path, text := range c.files {
		w.write("repo/"+path, text)
	}
	w.write("repo/.trellis/rehearsal.yaml", c.script)
	for _, line := range []string{"init -q -b main", "config user.name Tester", "config user.email t@example.org", "add -A", "commit -q -m first",
		"init -q --bare -b main ../remote.git", "remote add origin ../remote.git", "push -q origin main"} {
		w.git("repo", strings.Fields(line)...)
	}
	for path, text := range c.work {
		w.write(path, text)
	}
	w.open(c.configure)
	r := tape(w, w.Site, c.cuts)
	res := c.play(r)
	r.archive.want = w.ended(res)
	r.end(name)
}

func (c testCase) finish(t *testing.T, a *archive, cut cut) {
	w := newWorld(t)
	a.lay(w, cut)
	w.open(c.configure)
	before := w.journals()
	res := c.resume(w, cut.name)
	got := w.ended(res)
	for _, key := range slices.Sorted(maps.Keys(a.want)) {
		if key == "calls" && strings.Contains(cut.name, "script#") && repeated(got[key], a.want[key]) {
			continue // a command that was cut off is run again
		}
		if got[key] != a.want[key] {
			t.Errorf("%s\n got %q\nwant %q", key, got[key], a.want[key])
		}
	}
	after := w.journals()
	for path, text := range before {
		if !strings.HasPrefix(after[path], text) && !c.again {
			t.Errorf("%s does not go on with what was recorded", path)
		}
	}
}

// journals returns the journals of the world, by path.
func (w *world) journals() map[string]string {
	w.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"repo/.trellis/tasks/*/run/journal.jsonl", "repo/.trellis/.runtime/runs/*/run/journal.jsonl"} {
		for _, path := range w.glob(pattern) {
			data, err := os.ReadFile(path)
			if err != nil {
				w.Fatal(err)
			}
			found[strings.Replace(path, "/.new-", "/", 1)] = string(data)
		}
	}
	return found
}

// repeated reports whether got has all words of want, and one of them twice.
func repeated(got, want string) bool {
	for _, word := range strings.Fields(want) {
		twice := append(strings.Fields(want), word)
		slices.Sort(twice)
		if got == strings.Join(twice, " ") {
			return true
		}
	}
	return false
}
