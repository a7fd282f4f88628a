// Package journal runs flow code on this machine and keeps a record of it, so that after a crash the same code continues where it
// was.
//
// A run is stored in a folder (run/ of a task). journal.jsonl has one JSON line for each event: the run began, an activity
// started, an activity ended, a signal arrived, the run was cancelled, the run ended. Flow code is run from its beginning each
// time, and finished steps answer from the record. A process that runs it holds the lock of the folder.
//
// Lines are numbered, and each contains the hash of the line before, so that a line that was changed, lost or written by another
// process is detected. The start of an activity is written without fsync, since an activity that is entered again checks for its
// effect first; everything else is on disk before the flow gets it, except records of lazy activities. A last line that a crash
// cut off is dropped; any other damage makes the journal unusable.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

var (
	// ErrNone means that the folder has no journal.
	ErrNone = errors.New("no journal")
	// ErrDamaged means that a journal can't be trusted, or was written by a newer trellis. The message has file and line. Nothing
	// repairs the journal; Begin archives it.
	ErrDamaged = errors.New("journal damaged")
	// ErrFenced means that the lock or the journal is no longer the file that this process opened, or that another process has
	// written to it. Nothing was written. It also matches flow.ErrSuspended.
	ErrFenced = errors.New("another process took over the run")
	// ErrNondeterministic means that flow code asked for something other than in an earlier execution, or misused a Flow. What it
	// asked for was neither done nor written.
	ErrNondeterministic = errors.New("flow code does not follow its journal")
)

// DamagedError is an ErrDamaged with the place and the kind of the damage.
type DamagedError struct {
	File string
	Line int
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s:%d: %v: %v", e.File, e.Line, ErrDamaged, e.Err)
}

func (e *DamagedError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// GoneError means that the folder of a run was removed or renamed while the run was executed. Nothing was written. It also
// matches ErrFenced.
type GoneError struct{ Dir string }

func (e *GoneError) Error() string {
	return e.Dir + " was removed or renamed while its run was at work"
}

func (e *GoneError) Is(target error) bool { return target == ErrFenced }

// Parked is the error of Execute if all of the run waits, for longer than is worth keeping a process. The run continues when it
// is executed again.
type Parked struct {
	For   []string  // ids of the waits, such as await:approval#1
	Until time.Time // when the first of them ends by its limit, zero if none has a limit
}

func (p *Parked) Error() string {
	text := "parked, waiting for " + strings.Join(p.For, ", ")
	if !p.Until.IsZero() {
		text += " until " + p.Until.Format(time.RFC3339)
	}
	return text
}

// Options say where a run is stored and what it may use. Only Dir is required to begin a run.
type Options struct {
	Dir        string          // run/; created if missing, but not its parents
	Clone      string          // id of the repository's clone, recorded by Begin: a journal with another one came here by git or was copied
	Build      string          // build of this program: inputs are compared with the record only if the same build began the run
	Activities []flow.Activity // the activities that flow code may call
	ParkAfter  time.Duration   // waits longer than this park the run; zero means a minute
	Disk       *durable.Disk
	Holder     durable.Holder // description of this process in the lock
	// Clear, if set, is called with the former holder of the lock as soon as the lock is taken. It makes sure that nothing of
	// that holder is still running. If it fails, the run is not opened.
	Clear func(former durable.Holder) error
	// Mailbox, if set, returns messages from people to the run. During Execute it is called from one goroutine: before the flow
	// starts, on Poke, every five seconds, and again before the run parks or a wait gives up. It may return the same messages
	// each time, and should return quickly.
	Mailbox func() []Message
	// Waits, if set, is called with the history entry of a wait when the flow begins to wait for a time or for a signal that has
	// not arrived. It is called again in a process that resumes the wait.
	Waits func(Entry)
	// Wrote, if set, is called after the outcome of an activity, of a wait or of the run was written. It must not block.
	Wrote func()
	Now   func() time.Time // nil means time.Now
}

// Message is a message from a person to a run. It is recorded once.
type Message struct {
	ID      string          // id of a signal; a signal with a known id is skipped
	Signal  string          // name of the signal, for Await
	Data    json.RawMessage // data of the signal, at most flow.MaxPayload; may be nil
	Cancel  bool            // call the run off
	Suspend error           // stop working on the run, for this reason, which is not recorded
}

// Spec is what a run begins with. It is stored in the journal.
type Spec struct {
	Run   string          // <task>/<n>
	Flow  string          // name of the flow code
	Code  int             // its version
	Input json.RawMessage // at most flow.MaxPayload
}

func (s Spec) check() error {
	if s.Run == "" {
		return errors.New("a run needs a name")
	}
	return checkPayload(s.Input)
}

func checkPayload(data json.RawMessage) error {
	if len(data) > flow.MaxPayload {
		return fmt.Errorf("%d bytes are too many, at most %d", len(data), flow.MaxPayload)
	}
	if len(data) > 0 && !json.Valid(data) {
		return errors.New("invalid JSON")
	}
	return nil
}

// asSuspended wraps err so that it matches flow.ErrSuspended.
func asSuspended(err error) error {
	if errors.Is(err, flow.ErrSuspended) {
		return err
	}
	return fmt.Errorf("%w: %w", flow.ErrSuspended, err)
}
