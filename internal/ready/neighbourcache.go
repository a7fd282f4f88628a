package ready

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Neighbours are the tasks of one store, as far as they can get into each other's way. What was read from a task.json is kept
// until the file changes, so that a check among thousands of tasks costs one stat of each file. The zero value is ready to
// use, by several goroutines at once.
type Neighbours struct {
	changes changes
	mu      sync.Mutex
	tasks   map[string]knownTask // by directory name
	slow    sync.Map             // by directory name: the chan known that receives a task that is still being read
}

// patience is how long reading one task may take. After that, checks use what was known about it before.
const patience = time.Second

// changes are what was reported about tasks since they were read. A report never waits for a reader.
type changes struct {
	mu       sync.Mutex
	followed bool            // Follow was called
	all      bool            // anything may have changed
	stale    map[string]bool // tasks that changed, by directory name
}

// take returns what has changed, all tasks or these, and forgets it.
func (c *changes) take() (all bool, ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, ids = c.all || !c.followed, slices.Collect(maps.Keys(c.stale))
	c.all, c.stale = false, map[string]bool{}
	return all, ids
}

// Follow promises to call Changed for whatever changes from now on. A check then reads nothing else again.
func (n *Neighbours) Follow() {
	c := &n.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followed, c.all, c.stale = true, true, map[string]bool{}
}

// Changed reports that a task directory is new, gone, or has another task.json; "" that any of them may.
func (n *Neighbours) Changed(dir string) {
	c := &n.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	switch id := filepath.Base(dir); {
	case !c.followed:
	case dir == "":
		c.all = true
	case id[0] != '.': // not a draft
		c.stale[id] = true
	}
}

// neighbour is what other tasks have to know about a task.
type neighbour struct {
	name, branch string // the branch that it has or is going to have
	status       trellis.Status
	dependsOn    []string
}

// knownTask is a task.json as it was last read.
type knownTask struct {
	stamp stamp
	task  *neighbour // nil: it could not be read
}

// stamp is different for different contents of a file. The zero stamp says nothing about the content.
type stamp struct {
	inode   uint64
	size    int64
	changed time.Time
}

// young is the age below which the time of a file does not show the next change: clocks of file systems are coarse.
const young = 2 * time.Second

func stampOf(path string) stamp {
	st, err := os.Lstat(path)
	if err != nil || time.Since(st.ModTime()) < young {
		return stamp{}
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	return stamp{sys.Ino, st.Size(), st.ModTime()}
}

// withTasks brings what is known up to date and passes it to use, by directory name.
func (n *Neighbours) withTasks(s taskdir.Store, use func(map[string]knownTask) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.update(s); err != nil {
		return err
	}
	return use(n.tasks)
}

func (n *Neighbours) update(s taskdir.Store) error {
	n.takeAnswers()
	all, changed := n.changes.take()
	if !all {
		for _, id := range changed {
			n.put(id, n.read(s, id))
		}
		return nil
	}
	ids, err := s.IDs()
	if err != nil {
		n.Changed("")
		return err
	}
	now := taskdir.ParallelMap(ids, func(id string) knownTask { return n.read(s, id) })
	n.tasks = make(map[string]knownTask, len(ids))
	for i, id := range ids {
		n.put(id, now[i])
	}
	return nil
}

// takeAnswers takes the tasks that were slow to read. They may have changed meanwhile, and are read again.
func (n *Neighbours) takeAnswers() {
	n.slow.Range(func(id, answer any) bool {
		select {
		case k := <-answer.(chan knownTask):
			n.slow.Delete(id)
			n.put(id.(string), k)
			n.Changed(id.(string))
		default:
		}
		return true
	})
}

func (n *Neighbours) put(id string, k knownTask) {
	if k.task == nil {
		delete(n.tasks, id)
		return
	}
	n.tasks[id] = k
}

// read reads a task.json, unless it is unchanged. A link is not a task, and is not followed: its target may not answer.
func (n *Neighbours) read(s taskdir.Store, id string) knownTask {
	dir := filepath.Join(s.Tasks(), id)
	if st, err := os.Lstat(dir); err != nil || st.Mode()&fs.ModeSymlink != 0 {
		return knownTask{}
	}
	old := n.tasks[id]
	k := knownTask{stamp: stampOf(filepath.Join(dir, taskdir.TaskJSON))} // before the content, so that a later change has another stamp
	if k.stamp != (stamp{}) && old.stamp == k.stamp {
		return old
	}
	answer := make(chan knownTask, 1)
	if _, under := n.slow.LoadOrStore(id, answer); under {
		return old // takeAnswers takes the result
	}
	go func() {
		if t, err := s.Load(dir); err == nil {
			k.task = neighbourOf(t)
		}
		answer <- k
	}()
	select {
	case k := <-answer:
		n.slow.Delete(id)
		return k
	case <-time.After(patience):
		return old
	}
}

// neighbourOf clones the strings that it keeps, since the text of a field keeps the whole file in memory.
func neighbourOf(t *taskdir.Task) *neighbour {
	n := &neighbour{name: strings.Clone(t.Name), branch: strings.Clone(t.BranchName()), status: trellis.Status(strings.Clone(string(t.Status)))}
	for _, id := range t.Pipeline.DependsOn {
		n.dependsOn = append(n.dependsOn, strings.Clone(id))
	}
	return n
}
