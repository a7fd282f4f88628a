package cleanup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Run is the record of what agents and commands were told and did in a run of a task that is over: the folder of the run
// below run/, without what the task's proofs name.
type Run struct {
	Dir    string    `json:"dir"` // directory of the task
	ID     string    `json:"id"`
	Number string    `json:"run"`
	Ended  time.Time `json:"ended"` // when something was last written there
	Size   int64     `json:"size"`

	files []string // paths from the task's directory
}

// Runs are the runs of tasks.
type Runs struct {
	Store taskdir.Store
	Now   func() time.Time
}

// List returns the runs of completed and archived tasks, the newest first. The runs of other tasks are still needed: for a retry.
func (c Runs) List() (list []Run, err error) {
	live, err := c.Store.List()
	if err != nil {
		return nil, err
	}
	archived, err := c.Store.ListArchived()
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Concat(live, archived) {
		if e.Task == nil || !isOver(e.Task.Status, e.Dir, c.Store) {
			continue
		}
		runs, err := runsOf(e.Dir)
		if err != nil {
			return nil, err
		}
		list = append(list, runs...)
	}
	slices.SortFunc(list, func(a, b Run) int { return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(a.Dir, b.Dir)) })
	return list, nil
}

// isOver reports whether a task is over for good.
func isOver(s trellis.Status, dir string, store taskdir.Store) bool {
	return s == trellis.Completed || s.Ended() && filepath.Dir(dir) != store.Tasks()
}

// Expired returns the runs that ended longer ago than keep, and the oldest of those that take more than most bytes in all.
// Zero means no limit.
func (c Runs) Expired(runs []Run, keep time.Duration, most int64) (list []Run) {
	var sum int64
	for _, r := range runs {
		if sum += r.Size; keep > 0 && c.Now().Sub(r.Ended) > keep || most > 0 && sum > most {
			list = append(list, r)
		}
	}
	return list
}

// runsOf returns the runs of the task in dir. It follows no link.
func runsOf(dir string) (list []Run, err error) {
	proven, err := provenFiles(dir)
	if err != nil {
		return nil, nil // without knowing what is proven, nothing may be deleted
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for runs: %w", err)
	}
	defer root.Close()
	names, err := fs.ReadDir(root.FS(), taskdir.Run)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for runs: %w", err)
	}
	for _, e := range names {
		if !e.IsDir() || strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		r := Run{Dir: dir, ID: filepath.Base(dir), Number: e.Name()}
		if err := r.collect(root.FS(), proven); err != nil {
			return nil, fmt.Errorf("looking at run %s of %s: %w", r.Number, r.ID, err)
		}
		if len(r.files) > 0 {
			list = append(list, r)
		}
	}
	return list, nil
}

// provenFiles returns the files that the proofs of a task name, as paths from its directory.
func provenFiles(dir string) (map[string]bool, error) {
	proofs, problems, err := proof.ReadProofs(dir)
	if err == nil && len(problems) > 0 {
		err = &problems[0]
	}
	named := map[string]bool{}
	for _, p := range proofs {
		for _, d := range p.Outputs() {
			named[path.Join(taskdir.Run, d.Path)] = true
		}
	}
	return named, err
}

// collect finds the files of a run that no proof names.
func (r *Run) collect(root fs.FS, proven map[string]bool) error {
	return fs.WalkDir(root, path.Join(taskdir.Run, r.Number), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || proven[name] {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		r.files, r.Size = append(r.files, name), r.Size+st.Size()
		if st.ModTime().After(r.Ended) {
			r.Ended = st.ModTime()
		}
		return nil
	})
}

// Remove deletes the files of a run for good, unless somebody works on the task. Journals, approvals, proofs with the output
// that they name, and the report are kept.
func (c Runs) Remove(r Run) (err error) {
	lock, err := runlock.Take(r.Dir, c.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if t, err := c.Store.Load(r.Dir); err != nil {
		return err
	} else if !isOver(t.Status, r.Dir, c.Store) {
		return &KeptError{r.ID, "it is " + string(t.Status), ""}
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return fmt.Errorf("deleting run %s of %s: %w", r.Number, r.ID, err)
	}
	defer root.Close()
	for _, name := range r.files {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deleting run %s of %s: %w", r.Number, r.ID, err)
		}
		for dir := path.Dir(name); dir != taskdir.Run && root.Remove(dir) == nil; {
			dir = path.Dir(dir)
		}
	}
	return nil
}
