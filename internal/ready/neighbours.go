package ready

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// neighbours checks what depends on other tasks: the task's branch and its dependencies. Tasks that can't be read are left
// out, since they are reported themselves. owned reports whether another task owns the branch.
func (c *check) neighbours() (owned bool, err error) {
	for _, b := range []struct{ name, key, set string }{{c.task.Branch, "branch", "set-branch"}, {c.task.BaseBranch, "base_branch", "set-base-branch"}} {
		if err := git.CheckBranchName(b.name); b.name != "" && err != nil {
			c.addAt(b.key, "trellis task "+b.set+" "+trellis.ShellWord(c.As)+" BRANCH", "%v", err)
		}
	}
	all := c.Neighbours
	if all == nil {
		all = new(Neighbours)
	}
	err = all.withTasks(c.Store, func(tasks map[string]knownTask) error {
		owned = c.branch(tasks)
		return c.dependencies(tasks)
	})
	return owned, err
}

// branch checks that no other task has the branch. Of two tasks that name the same one, it belongs to the task that has
// worked on it, or else to the one that was made first; of a copy and its original, to the original.
func (c *check) branch(tasks map[string]knownTask) (owned bool) {
	own, owner := c.task.BranchName(), ""
	for id, o := range tasks {
		if o.task.branch == own && id != c.As && keepsBranch(o.task.status) &&
			(mayHaveWork(o.task.status) || !mayHaveWork(c.Status) && id < c.As || c.isCopy(c.As)) && (owner == "" || id < owner) && !c.isCopy(id) {
			owner = id
		}
	}
	if owner != "" {
		c.addAt("branch", "trellis task set-branch "+trellis.ShellWord(c.As)+" BRANCH", "branch %s belongs to task %s", own, owner)
	}
	return owner != ""
}

// isCopy reports whether a task's directory is a copy of one that has begun: the branch that it names is then the other's.
func (c *check) isCopy(id string) bool {
	dir := filepath.Join(c.Store.Tasks(), id)
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	return err == nil && CopyOf(c.Store, dir, h) != ""
}

// CopyOf returns the task whose run a journal records, if that is another task than the directory's and has a journal too. It
// returns "" if the run is the task's own, which may have been renamed.
func CopyOf(store taskdir.Store, dir string, h *journal.History) string {
	of, _, _ := strings.Cut(h.Run, "/")
	if filepath.Dir(dir) != store.Tasks() || of == filepath.Base(dir) || !taskdir.ValidID(of) {
		return ""
	}
	if _, err := os.Lstat(filepath.Join(store.Tasks(), of, taskdir.Journal)); err != nil {
		return ""
	}
	return of
}

// keepsBranch reports whether a task with this status keeps its branch.
func keepsBranch(s trellis.Status) bool { return s != trellis.Completed && s != trellis.Rejected }

// mayHaveWork reports whether a task with this status may have work on its branch.
func mayHaveWork(s trellis.Status) bool {
	return s != trellis.Planning && s != trellis.Ready && s != trellis.Waiting && s != trellis.Rejected
}

// dependencies checks that all dependencies are tasks, archived ones included, and that the task does not depend on itself.
func (c *check) dependencies(tasks map[string]knownTask) error {
	wants := c.task.Pipeline.DependsOn
	unknown := slices.DeleteFunc(slices.Clone(wants), func(id string) bool { return id == c.As || tasks[id].task != nil })
	if len(unknown) > 0 {
		if err := c.addUnknown(unknown, tasks); err != nil {
			return err
		}
	}
	if cycle := c.cycle(tasks, c.As, wants, map[string]bool{}); cycle != nil {
		c.addAt(c.dependencyKeys(cycle[1]), "take one of them out of pipeline.depends_on", "depends on itself: %s", strings.Join(cycle, " → "))
	}
	return nil
}

// addUnknown adds a problem for each dependency that is not in the archive either. A broken task exists, and is reported itself.
func (c *check) addUnknown(ids []string, tasks map[string]knownTask) error {
	for _, id := range ids {
		if archived, err := c.Store.Archived(id); err != nil {
			return err
		} else if archived != "" {
			continue
		}
		_, err := c.Store.Load(filepath.Join(c.Store.Tasks(), id))
		if taskdir.ValidID(id) && !errors.Is(err, taskdir.ErrNotFound) {
			continue
		}
		c.addAt(c.dependencyKeys(id), c.dependencyHint(id, tasks), "depends on %q, which is not a task's directory name", id)
	}
	return nil
}

// dependencyKeys returns the keys at which task.json names a dependency.
func (c *check) dependencyKeys(id string) string {
	return c.keys("pipeline.depends_on", slices.Index(c.task.Pipeline.DependsOn, id))
}

// dependencyHint returns a hint for a dependency that names a task by anything but its directory.
func (c *check) dependencyHint(wrong string, tasks map[string]knownTask) string {
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		if id != c.As && tasks[id].task.name == wrong {
			return "write " + id + " in pipeline.depends_on"
		}
	}
	return "trellis list"
}

// cycle returns a path from the task along dependencies back to the task, or nil.
func (c *check) cycle(tasks map[string]knownTask, at string, wants []string, seen map[string]bool) []string {
	for _, id := range wants {
		if id == c.As {
			return []string{at, id}
		}
		if seen[id] || tasks[id].task == nil {
			continue
		}
		seen[id] = true
		if rest := c.cycle(tasks, id, tasks[id].task.dependsOn, seen); rest != nil {
			return append([]string{at}, rest...)
		}
	}
	return nil
}
