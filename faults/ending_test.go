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

// ending returns the result of a task's run, without times and numbers that differ between runs. Two runs that ended
// alike have the same ending.
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

// ids matches the parts of a commit message that differ between runs.
var ids = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9a-f]{16,64}`) })

var numbers = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[0-9a-f]{12,64}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?|\d+\.\d|Agents: \d+ s`)
})

// unremembered matches all that a failed write may cost if it only saves other tasks a run of the checks: a note.
var unremembered = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^## Notes\n\n- that the checks passed is not remembered.*\n\n?`)
})

// entries matches the folders of activities' entries: an activity that was cut off is entered again.
var entries = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(#\d+)/\d+/`) })

// plain returns text without times, seconds, hashes, numbers of entries and the root of the world.
func (w *world) plain(text string) string {
	text = entries().ReplaceAllString(strings.ReplaceAll(text, w.Root, "ROOT"), "$1/N/")
	return numbers().ReplaceAllString(text, "#")
}

// fields returns the fields of task.json, except times, revision and seconds.
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

// status returns the status of a task.
func (w *world) status(id string) string {
	w.Helper()
	var task struct{ Status string }
	_ = json.Unmarshal([]byte(w.read("repo/.trellis/tasks/"+id+"/task.json")), &task) // no task.json: no status
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

// once returns the ids of what a journal says was done, in the order of the ends, repeated if done more than once.
func (w *world) once(journal string) string {
	w.Helper()
	var b strings.Builder
	for _, l := range lines(w.read(journal)) {
		if l.Kind == "done" && l.Name != "status" && !strings.HasPrefix(l.ID, "status#") { // the last status may be missing, and the task delivered
			fmt.Fprintln(&b, l.ID)
		}
	}
	return b.String()
}

// calls counts, by name, the lines that agents and commands left outside of the repository.
func (w *world) calls() map[string]int {
	w.Helper()
	n := map[string]int{}
	for _, call := range strings.Fields(w.read("calls.log")) {
		n[call]++
	}
	return n
}

// repeated returns the number of calls beyond those wanted, and the names of the calls that were made too rarely.
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

// left returns files that only a process which is gone could use: half-written ones, and locks of git. They may stay in
// the folder of an activity's entry, which keeps all that was cut off in it. So may temporary files until an hour after
// the kill: one may hold what a person saved at that moment. Whoever takes the task after that removes them.
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

// begun reports whether the git folder of a worktree does not name its place yet: its maker was killed early. The
// first worktree that is made a minute later removes it.
func begun(admin string) bool {
	link, err := os.ReadFile(filepath.Join(admin, "gitdir"))
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(link) == 0
}

// match returns the paths in the world that match a pattern.
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

// differ returns the first lines in which two endings differ.
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
