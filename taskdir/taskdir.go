// Package taskdir reads and writes task directories: .trellis/tasks/MM-DD-name with its task.json.
//
// task.json is shared with people and with other tools, so reading is liberal (every shape that an
// earlier version wrote is understood, and what is illegal is named without hiding the rest), and an
// update changes the bytes of the fields it sets and no others. A directory that Trellis makes is
// published by a rename, so that nobody sees half of one. docs/reference/formats.md is the contract.
package taskdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Names inside a task directory.
const (
	TaskJSON         = "task.json"
	Requirement      = "requirement.md"
	PRD              = "prd.md"
	TaskSpec         = "taskspec.json"
	Plan             = "plan.json"
	ImplementContext = "implement.jsonl"
	CheckContext     = "check.jsonl"
	DebugContext     = "debug.jsonl"
	Research         = "research.md"
	Info             = "info.md"
	Design           = "design.md"
	Rejected         = "REJECTED.md"
	Report           = "report.md"
	PlanLog          = ".plan-log"
	Approvals        = "approvals.jsonl"
	Proofs           = "proofs.jsonl"
	Run              = "run" // machine state, never committed
	Journal          = "run/journal.jsonl"
	RunLock          = "run/lock"       // held for a whole run
	WriteLock        = "run/write.lock" // held for the milliseconds of a change
)

const (
	// DraftPrefix begins the name of a directory whose planning has not ended.
	DraftPrefix = ".new-"
	archiveName = "archive"
)

var (
	// ErrNotFound says that there is no such task, or a directory without a task.json.
	ErrNotFound = errors.New("no such task")
	// ErrExists says that the name of a new task is taken on that day.
	ErrExists = errors.New("task exists")
)

// Store is the task directories of one repository. Its methods may be called by any number of
// goroutines and processes at once.
type Store struct {
	Root string           // the main checkout, absolute
	Disk *durable.Disk    // nil is a disk without faults
	Now  func() time.Time // nil is time.Now

	// Changed is told of every status that a task gets through this Store, once it is written and before others can
	// change it again; before is nil for a task that is published. Nil: nobody is told.
	Changed func(before, after *Task)

	// MayChange says why no task.json in a directory may be changed here, as another machine is at work on the task. Nil: all may.
	MayChange func(dir string) error
}

// Tasks is the folder that the task directories lie in.
func (s Store) Tasks() string { return filepath.Join(s.Root, ".trellis", "tasks") }

// Rel is path as problems and messages show it: relative to the repository where it lies inside.
func (s Store) Rel(path string) string {
	if rel, ok := strings.CutPrefix(path, s.Root+"/"); ok {
		return rel
	}
	return path
}

// Clock is what time it is for a store.
func (s Store) Clock() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// Load reads the task in dir. What makes the file unusable is a *trellis.Problem, with line and column
// where there are some; values that are not legal are in Task.Problems. A directory without a
// task.json matches ErrNotFound and is a *trellis.Problem too.
func (s Store) Load(dir string) (*Task, error) {
	path := filepath.Join(dir, TaskJSON)
	data, err := readTask(path)
	if err != nil {
		return nil, s.loadError(dir, path, err)
	}
	return s.parse(dir, data)
}

// parse is the task in dir whose task.json has the content data.
func (s Store) parse(dir string, data []byte) (*Task, error) {
	t, err := Parse(s.Rel(filepath.Join(dir, TaskJSON)), data)
	if err != nil {
		return nil, err
	}
	t.Dir, t.ID = dir, filepath.Base(dir)
	t.checkID(s.Rel(dir))
	return t, nil
}

func (s Store) loadError(dir, path string, err error) error {
	p := &trellis.Problem{File: s.Rel(path)}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Message = "there is no task.json"
		p.Hint = `write one: {"status": "planning"} is enough`
		switch {
		case !durable.Exists(dir):
			p.File, p.Message, p.Hint = s.Rel(dir), "there is no such directory", "trellis list"
		case durable.Exists(filepath.Join(dir, Run)): // git leaves that; one written here would be in the way of the task's own
			p.Hint = "it was run here, so there was one: check out the branch that has it, or git stash pop; or trellis task rm " + trellis.ShellWord(filepath.Base(dir))
		}
		return fmt.Errorf("%w: %w", ErrNotFound, p)
	case errors.Is(err, durable.ErrLink):
		if linked := s.realDir(dir); linked != nil {
			return linked
		}
		p.Message = "is a symbolic link; Trellis reads and replaces only real files here"
		p.Hint = "put the file itself in the place of the link"
	case errors.Is(err, durable.ErrIrregular), errors.Is(err, syscall.EISDIR):
		p.Message = "is not a file"
		p.Hint = "put a file in its place"
	case errors.Is(err, durable.ErrTooLarge):
		p.Message = fmt.Sprintf("is larger than the %d MB that Trellis reads", durable.MaxRecords>>20)
		p.Hint = "move long text to prd.md or info.md"
	case errors.Is(err, fs.ErrPermission):
		p.Message, p.Hint = "can't be read: permission denied", durable.MakeYours(path)
	default:
		return fmt.Errorf("reading task: %w", err)
	}
	return p
}

// readTask reads a task.json, which is replaced by each change and so may be no link.
func readTask(path string) ([]byte, error) { return durable.ReadOwn(path, durable.MaxRecords) }
