package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Kind classifies an error; front ends map it to an exit code, a status or a colour. A Kind is itself an error, for use with
// [errors.Is]; [AsKind] gives an error a kind. Its text is a contract with scripts.
type Kind string

// The kinds of errors.
const (
	ErrFailed      Kind = "failed" // any error of no other kind
	ErrUsage       Kind = "usage"  // the request makes no sense, or not here
	ErrUnmet       Kind = "unmet"  // a check did not hold
	ErrRejected    Kind = "rejected"
	ErrPlanner     Kind = "planner"
	ErrWaiting     Kind = "waiting"
	ErrNotFound    Kind = "not_found"
	ErrLocked      Kind = "locked"
	ErrNoAgent     Kind = "no_agent"
	ErrTimeout     Kind = "timeout"
	ErrInterrupted Kind = "interrupted"
)

func (k Kind) Error() string { return string(k) }

// KindOf returns the kind of an error from any layer.
func KindOf(err error) Kind {
	for _, k := range []Kind{ErrFailed, ErrUsage, ErrUnmet, ErrRejected, ErrPlanner, ErrWaiting, ErrNotFound, ErrLocked, ErrNoAgent, ErrTimeout, ErrInterrupted} {
		if errors.Is(err, k) {
			return k
		}
	}
	switch {
	case errors.As(err, new(*proc.SignalError)):
		return ErrInterrupted
	case errors.As(err, new(*runner.RefusedError)):
		return ErrUsage
	case errors.Is(err, trust.ErrUntrusted):
		return ErrWaiting
	case errors.Is(err, taskdir.ErrNotFound), errors.Is(err, runner.ErrNoRun), errors.Is(err, roadmap.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, durable.ErrHeld), errors.Is(err, journal.ErrFenced):
		return ErrLocked
	case errors.As(err, new(*trellis.Problem)), errors.As(err, new(*durable.FileError)), errors.As(err, new(*git.OwnerError)):
		return ErrUsage
	}
	return kindOfFailure(err)
}

// kindOfFailure returns the kind for the failure of a run.
func kindOfFailure(err error) Kind {
	var f *flow.Failure
	if !errors.As(err, &f) {
		return ErrFailed
	}
	switch trellis.Code(f.Code) {
	case trellis.TimeoutWall, trellis.TimeoutIdle:
		return ErrTimeout
	case trellis.RateLimited, trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime:
		return ErrWaiting
	case trellis.Fenced:
		return ErrLocked
	case trellis.Interrupted:
		return ErrInterrupted
	}
	return ErrFailed
}

type kindError struct {
	kind Kind
	err  error
}

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// AsKind returns err as an error of a kind, with the same message.
func AsKind(kind Kind, err error) error { return &kindError{kind, err} }

// Usagef returns a formatted usage error.
func Usagef(format string, args ...any) error { return AsKind(ErrUsage, fmt.Errorf(format, args...)) }

// Quiet returns an error of a kind with an empty message, for when everything has been said.
func Quiet(kind Kind) error { return AsKind(kind, errors.New("")) }

// hintError is an error with hints on what to do about it.
type hintError struct {
	err   error
	hints []string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// WithHints adds hints on what to do about an error, preferably as commands to type.
func WithHints(err error, hints ...string) error { return &hintError{err, hints} }

// PlacesError is an error about places in files. Places may also hold warnings.
type PlacesError struct {
	Err    error
	Places []trellis.Problem
}

func (e *PlacesError) Error() string { return e.Err.Error() }

// Unwrap returns the error and the first place that it is about.
func (e *PlacesError) Unwrap() []error {
	list := []error{e.Err}
	if wrong := trellis.Errors(e.Places); len(wrong) > 0 {
		list = append(list, &wrong[0])
	}
	return list
}

// hints returns the hints of all places, without duplicates.
func (e *PlacesError) hints() (list []string) {
	for _, p := range trellis.Errors(e.Places) {
		if p.Hint != "" && !slices.Contains(list, p.Hint) {
			list = append(list, p.Hint)
		}
	}
	return list
}

// WithNearest adds the known word that is spelled most like an unknown one, if any is close, as a hint.
func WithNearest(err error, word string, known []string) error {
	if near := trellis.Nearest(word, known); near != "" {
		return WithHints(err, "did you mean: "+near)
	}
	return err
}

// HintsOf returns the hints of an error, or if none were added, those of the problem or failure that it wraps.
func HintsOf(err error) []string {
	if given, ok := errors.AsType[*hintError](err); ok {
		return given.hints
	}
	if several, ok := errors.AsType[*PlacesError](err); ok && len(several.hints()) > 0 {
		return several.hints()
	}
	if problem, ok := errors.AsType[*trellis.Problem](err); ok && problem.Hint != "" {
		return []string{problem.Hint}
	}
	if file, ok := errors.AsType[*durable.FileError](err); ok {
		return []string{file.Mend()}
	}
	if refused, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(refused, fs.ErrPermission) && !strings.Contains(refused.Op, "exec") {
		return []string{durable.PermissionAdvice(refused.Path)}
	}
	if durable.IsDiskError(err) {
		return []string{"put the disk right, then type the command again"}
	}
	if errors.Is(err, git.ErrNotInstalled) {
		return []string{"install git " + git.MinVersion + " or newer"}
	}
	if owned, ok := errors.AsType[*git.OwnerError](err); ok {
		return []string{owned.Command()}
	}
	if held, ok := errors.AsType[*durable.HeldError](err); ok {
		if hints := lockHints(held); hints != nil {
			return hints
		}
	}
	if damaged, ok := errors.AsType[*journal.DamagedError](err); ok {
		return damagedJournalHints(filepath.Dir(filepath.Dir(damaged.File)))
	}
	if elsewhere, ok := errors.AsType[*runner.OtherMachineError](err); ok {
		return []string{"trellis pull", "trellis logs " + trellis.ShellWord(elsewhere.Task)}
	}
	if refused, ok := errors.AsType[*runner.RefusedError](err); ok && refused.Hint != "" {
		return []string{refused.Hint}
	}
	if untrusted, ok := errors.AsType[*trust.UntrustedError](err); ok {
		return []string{untrusted.Next()}
	}
	if failure, ok := errors.AsType[*flow.Failure](err); ok {
		if info, known := trellis.Code(failure.Code).Info(); known {
			return []string{info.Todo}
		}
	}
	return nil
}

// damagedJournalHints returns how to go on in a directory whose journal can't be read. A new run of a task moves that journal aside, and so
// does a new planning; an archived task is over.
func damagedJournalHints(dir string) []string {
	id := strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix)
	t, err := taskdir.Store{}.Load(dir)
	switch {
	case isFileRun(dir):
		return []string{"trellis run FILE begins another run", "rm -r " + trellis.ShellWord(dir) + " forgets this one"}
	case filepath.Base(filepath.Dir(dir)) != filepath.Base(taskdir.Store{}.Tasks()):
		return nil
	case err == nil && t.Status == trellis.Review:
		return []string{"trellis retry " + trellis.ShellWord(id) + " --feedback 'what should be different'"}
	case err == nil && t.Status == trellis.Completed:
		return []string{"trellis task archive " + trellis.ShellWord(id)}
	case err != nil && !strings.HasPrefix(filepath.Base(dir), taskdir.DraftPrefix):
		return []string{"trellis validate " + trellis.ShellWord(id)}
	case err != nil || t.Status == trellis.Planning || t.Status == trellis.Rejected:
		again := "trellis plan --retry " + trellis.ShellWord(id)
		if _, err := os.Stat(filepath.Join(dir, taskdir.Requirement)); err != nil {
			again += " --requirement 'what is wanted'"
		}
		return []string{again}
	}
	return []string{"trellis retry " + trellis.ShellWord(id)}
}

// isFileRun reports whether a folder belongs to the run of a file, and not to a task.
func isFileRun(dir string) bool { return filepath.Base(filepath.Dir(dir)) == "runs" }

// lockHints returns what to do about the holder of a lock, nil for an unusual lock.
func lockHints(held *durable.HeldError) []string {
	dir, ofRun := strings.CutSuffix(held.Path, string(filepath.Separator)+filepath.FromSlash(taskdir.RunLock))
	id := filepath.Base(dir)
	switch {
	case ofRun && strings.HasPrefix(id, taskdir.DraftPrefix), ofRun && isFileRun(dir): // planners and runs of files are ended where they run
		return []string{"trellis logs -f " + trellis.ShellWord(id)}
	case ofRun:
		return []string{"trellis logs -f " + trellis.ShellWord(id), "trellis stop " + trellis.ShellWord(id)}
	case filepath.Base(held.Path) == filepath.Base(taskdir.WriteLock) && held.Holder.PID != 0:
		return []string{fmt.Sprintf("it is held for milliseconds: if process %d was stopped, kill -CONT %[1]d lets it continue", held.Holder.PID)}
	}
	return nil
}
