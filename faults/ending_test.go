package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// ending is what a task's run came to, without times and numbers that differ from run to run. Two runs that ended
// alike have the same one.
func (w *world) ending(id, branch string) string {
	w.Helper()
	var b strings.Builder
	part := func(name, text string) { fmt.Fprintf(&b, "== %s\n%s\n", name, text) }
	if w.git("branch", "--list", branch) != "" {
		part("tree", w.git("rev-parse", branch+"^{tree}"))
		part("commits", ids().ReplaceAllString(w.git("log", "--format=%an %ae%n%B", "main.."+branch), "ID"))
	}
	dir := "repo/.trellis/tasks/" + id + "/"
	part("report", w.plain(unremembered().ReplaceAllString(w.read(dir+"report.md"), "")))
	part("task", w.fields(w.read(dir+"task.json")))
	part("calls", w.once(dir+"run/journal.jsonl"))
	part("checkout", w.git("status", "--porcelain", "--", ":!.trellis/tasks", ":!.trellis/.runtime"))
	part("worktrees", w.plain(w.git("worktree", "list", "--porcelain")))
	part("left", w.left())
	return b.String()
}

// ids are what differs from one run of a commit's message to another.
var ids = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9a-f]{16,64}`) })

var numbers = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[0-9a-f]{12,64}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?|\d+\.\d|Agents: \d+ s`)
})

// unremembered is all that a disk may cost that refuses what only spares other tasks a run of the checks: a note.
var unremembered = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^## Notes\n\n- that the checks passed is not remembered.*\n\n?`)
})

// entries are folders of activities' entries: one that was cut off is entered again.
var entries = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(#\d+)/\d+/`) })

// plain is text without times, seconds, hashes, numbers of entries and the place of the world.
func (w *world) plain(text string) string {
	text = entries().ReplaceAllString(strings.ReplaceAll(text, w.Root, "ROOT"), "$1/N/")
	return numbers().ReplaceAllString(text, "#")
}

// fields are the fields of task.json, times, revision and seconds aside.
func (w *world) fields(data string) string {
	w.Helper()
	var task map[string]any
	if err := json.Unmarshal([]byte(data), &task); err != nil {
		return fmt.Sprintf("%v: %s", err, data)
	}
	var b strings.Builder
	flatten(&b, "", task)
	return w.plain(b.String())
}

// status is the task's.
func (w *world) status(id string) string {
	w.Helper()
	var task struct{ Status string }
	_ = json.Unmarshal([]byte(w.read("repo/.trellis/tasks/"+id+"/task.json")), &task) // without one: none
	return task.Status
}

func flatten(b *strings.Builder, name string, v any) {
	if m, ok := v.(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if key != "revision" && key != "seconds" && !strings.HasSuffix(key, "_at") {
				flatten(b, name+"."+key, m[key])
			}
		}
		return
	}
	fmt.Fprintf(b, "%s %v\n", name, v)
}

// line is a line of a journal.
type line struct {
	Kind string `json:"k"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

func lines(data string) (list []line) {
	for text := range strings.Lines(data) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil {
			list = append(list, l)
		}
	}
	return list
}

// once is what a journal says was done, in the order of its ends; more than once where that is so.
func (w *world) once(journal string) string {
	w.Helper()
	var b strings.Builder
	for _, l := range lines(w.read(journal)) {
		if l.Kind == "done" && l.Name != "status" && !strings.HasPrefix(l.ID, "status#") { // a run that delivered is over, also when the last thing is not recorded
			fmt.Fprintln(&b, l.ID)
		}
	}
	return b.String()
}

// calls counts the lines that agents and commands left outside of the repository.
func (w *world) calls() map[string]int {
	w.Helper()
	n := map[string]int{}
	for _, call := range strings.Fields(w.read("calls.log")) {
		n[call]++
	}
	return n
}

// repeated is how many calls were made more than once, and those that were not made at all.
func (w *world) repeated(want map[string]int) (again int, lost []string) {
	w.Helper()
	got := w.calls()
	for _, call := range slices.Sorted(maps.Keys(want)) {
		if got[call] < want[call] {
			lost = append(lost, call)
		}
		again += max(0, got[call]-want[call])
	}
	return again, lost
}

// left are files that only a process which is gone could have a use for: halves, and locks of git. In the folder of an
// activity's entry they may stay, which stays with all that was cut off in it. So may temporary files until an hour after
// the kill: one may hold what a person saved at that moment. Whoever takes the task after that sweeps them.
func (w *world) left() string {
	w.Helper()
	for _, dir := range []string{"repo/.trellis/tasks/*", "repo/.trellis/tasks/*/run", "repo/.trellis/objectives", "repo/.git"} {
		for _, found := range w.match(dir) {
			durable.Sweep(found, time.Now().Add(2*time.Hour))
		}
	}
	folders := w.path("repo/.trellis/tasks/") + "/*/run/[0-9]*/*"
	var list []string
	err := filepath.WalkDir(w.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, git := d.Name(), strings.Contains(path, "/.git/")
		if entry, _ := filepath.Match(folders, path); entry {
			return filepath.SkipDir
		}
		if strings.HasPrefix(name, ".tmp-") ||
			git && (strings.HasSuffix(name, ".lock") && name != "trellis.lock" || name == "locked" && !begun(filepath.Dir(path))) ||
			strings.HasPrefix(name, "trellis-git-") || strings.HasPrefix(name, ".new-") {
			list = append(list, strings.TrimPrefix(path, w.Root))
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return strings.Join(list, "\n")
}

// begun reports whether a git folder of a worktree says nothing yet of where that is: its maker was killed at once. The
// first worktree that is made a minute later removes it.
func begun(admin string) bool {
	link, err := os.ReadFile(filepath.Join(admin, "gitdir"))
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(link) == 0
}

// match are the paths in the world that a pattern matches.
func (w *world) match(pattern string) []string {
	w.Helper()
	found, err := filepath.Glob(w.path(pattern))
	if err != nil {
		w.Fatal(err)
	}
	return found
}

// gone waits until no process of the world is left.
func (w *world) gone() {
	w.Helper()
	var list []string
	for end := time.Now().Add(15 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if list = w.processes(); len(list) == 0 {
			return
		}
	}
	w.Errorf("processes are left: %q", list)
}

// differ shows the first lines in which two endings differ.
func differ(got, want string) string {
	g, v := bytes.Split([]byte(got), []byte("\n")), bytes.Split([]byte(want), []byte("\n"))
	var b strings.Builder
	for i, shown := 0, 0; i < max(len(g), len(v)) && shown < 6; i++ {
		var a, c []byte
		if i < len(g) {
			a = g[i]
		}
		if i < len(v) {
			c = v[i]
		}
		if !bytes.Equal(a, c) {
			shown++
			fmt.Fprintf(&b, "line %d: got %s\n      want %s\n", i+1, a, c)
		}
	}
	return b.String()
}
