// Package taskdir reads and writes task directories: .trellis/tasks/MM-DD-name with its task.json.
//
// task.json is shared with people and with other tools, so reading is liberal (every format of earlier versions is understood,
// and illegal values are reported without hiding the rest), and an update changes only the bytes of the fields that it sets. A
// new directory is published by a rename, so that nobody sees half of one. docs/reference/formats.md is the contract.
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
	WriteLock        = "run/write.lock" // held for the milliseconds that a change takes
)

const (
	// DraftPrefix begins the name of a directory that is still being planned.
	DraftPrefix = ".new-"
	archiveName = "archive"
)

var (
	// ErrNotFound means that there is no such task, or that a directory has no task.json.
	ErrNotFound = errors.New("no such task")
	// ErrExists means that the name of a new task is taken on that day.
	ErrExists = errors.New("task exists")
)

// Store is the task directories of one repository. Its methods are safe for concurrent use by any number of goroutines and
// processes.
type Store struct {
	Root string           // the main checkout, absolute
	Disk *durable.Disk    // nil: a disk without injected faults
	Now  func() time.Time // nil: time.Now

	// Changed, if not nil, is called for every status that a task gets through this Store, after it is written and before
	// others can change it again; before is nil for a task that is published.
	Changed func(before, after *Task)

	// CheckChange, if not nil, returns an error if a directory's task.json may not be changed here, as another machine works on
	// the task.
	CheckChange func(dir string) error
}

// Tasks returns the folder of the task directories.
func (s Store) Tasks() string { return filepath.Join(s.Root, ".trellis", "tasks") }

// Rel returns path as shown in problems and messages: relative to the repository if it is inside.
func (s Store) Rel(path string) string {
	if rel, ok := strings.CutPrefix(path, s.Root+"/"); ok {
		return rel
	}
	return path
}

// Clock returns the store's current time.
func (s Store) Clock() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// Load reads the task in dir. If the file is unusable, the error is a *trellis.Problem, with line and column where possible;
// illegal values are in Task.Problems. The error for a directory without a task.json matches ErrNotFound and is also a
// *trellis.Problem.
func (s Store) Load(dir string) (*Task, error) {
	path := filepath.Join(dir, TaskJSON)
	data, err := readTask(path)
	if err != nil {
		return nil, s.loadError(dir, path, err)
	}
	return s.parse(dir, data)
}

// parse returns the task in dir whose task.json contains data.
func (s Store) parse(dir string, data []byte) (*Task, error) {
	t, err := Parse(s.Rel(filepath.Join(dir, TaskJSON)), data)
	if err != nil {
		return nil, err
	}
	t.Dir, t.ID = dir, filepath.Base(dir)
	if t.WorktreePath != "" && !filepath.IsAbs(t.WorktreePath) { // written by a person
		t.WorktreePath = filepath.Join(s.Root, t.WorktreePath)
	}
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
		case durable.Exists(filepath.Join(dir, Run)): // git leaves run/ behind; a new task.json would conflict with the task's own
			p.Hint = "it was run here, so there was one: check out the branch that has it, or git stash pop; or trellis task rm " + trellis.ShellWord(filepath.Base(dir))
		}
		return fmt.Errorf("%w: %w", ErrNotFound, p)
	case errors.Is(err, durable.ErrLink):
		if linked := s.linkProblem(dir); linked != nil {
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
		p.Message, p.Hint = "can't be read: permission denied", durable.PermissionAdvice(path)
	default:
		return fmt.Errorf("reading task: %w", err)
	}
	return p
}

// readTask reads a task.json, which must not be a symbolic link since every change replaces it.
func readTask(path string) ([]byte, error) { return durable.ReadOwn(path, durable.MaxRecords) }
