// Package journal runs flow code on this machine and keeps a record of it, so that after a crash the
// same code goes on where it was.
//
// A run lives in a folder (run/ of a task). journal.jsonl holds one JSON line for each thing that
// happened: how the run began, which activity started, what came of it, which signal arrived, that
// the run was cancelled, how it ended. Flow code is run from its beginning each time, and what is
// finished answers from the record. Whoever runs it holds the lock of the folder.
//
// Lines are numbered, and each has the hash of the line before, so that a line that was changed,
// lost or written by someone else shows. The start of an activity is written without fsync, since an
// activity that is entered again looks for its effect first; everything else is on disk before the
// flow hears of it. A last line that was cut off by a crash is dropped; any other fault makes the
// journal unusable.
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
	// ErrNone says that the folder has no journal.
	ErrNone = errors.New("no journal")
	// ErrDamaged says that a journal can't be trusted, or was written by a newer trellis. The
	// message has file and line. Nothing repairs it; Begin puts it aside.
	ErrDamaged = errors.New("journal damaged")
	// ErrFenced says that lock or journal are no longer the files that this process opened, or
	// that someone else has written to them. Nothing was written. It also matches flow.ErrSuspended.
	ErrFenced = errors.New("another process took over the run")
	// ErrNondeterministic says that flow code asked for something else than it did before, or used a
	// Flow in a way it must not. Nothing was done or written for what it asked.
	ErrNondeterministic = errors.New("flow code does not follow its journal")
)

// DamagedError is an ErrDamaged with what stands where.
type DamagedError struct {
	File string
	Line int
	Err  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s:%d: %v: %v", e.File, e.Line, ErrDamaged, e.Err)
}

func (e *DamagedError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// GoneError says that the folder of a run was removed, or renamed, while it was at work. Nothing was written. It matches
// ErrFenced too.
type GoneError struct{ Dir string }

func (e *GoneError) Error() string {
	return e.Dir + " was removed or renamed while its run was at work"
}

func (e *GoneError) Is(target error) bool { return target == ErrFenced }

// Parked is why Execute returned although the run has not ended: all of it waits, for longer than
// is worth a process. It goes on when it is executed again.
type Parked struct {
	For   []string  // ids of the waits, such as await:approval#1
	Until time.Time // when the first of them passes, zero if none ever does
}

func (p *Parked) Error() string {
	text := "parked, waiting for " + strings.Join(p.For, ", ")
	if !p.Until.IsZero() {
		text += " until " + p.Until.Format(time.RFC3339)
	}
	return text
}

// Options say where a run is and what it may use. Only Dir is needed to begin a run.
type Options struct {
	Dir        string          // run/; made when it is missing, but not what is above it
	Clone      string          // of the repository, noted by Begin: a journal of another one came here by git, or was copied
	Build      string          // of this program: inputs are compared with the record only if the same build began the run
	Activities []flow.Activity // what flow code may call
	ParkAfter  time.Duration   // waits longer than this park the run; zero is a minute
	Disk       *durable.Disk
	Holder     durable.Holder // what the lock says about this process
	// Clear, if set, is called with what the lock said before, as soon as it is taken. It makes sure that
	// nothing of the former holder is still running, and its error keeps the run from being opened.
	Clear func(former durable.Holder) error
	// Mailbox, if set, tells what people want of the run. During Execute it is called from one
	// goroutine: before the flow starts, on Poke, every five seconds, and again before the run parks
	// or a wait gives up. It may tell the same messages each time, and should not take long.
	Mailbox func() []Message
	// Waits, if set, is called when the flow begins to wait for a time or a signal that is not there yet, with the entry of
	// that in the history. It is called again in a process that goes on with the wait.
	Waits func(Entry)
	// Wrote, if set, is called when it was written down what came of an activity, of a wait or of the run. It must not wait.
	Wrote func()
	Now   func() time.Time // nil is time.Now
}

// Message is something that people want of a run. It becomes one record, once.
type Message struct {
	ID      string          // of a signal: one that was seen before is passed over
	Signal  string          // name that an Await takes it by
	Data    json.RawMessage // of the signal, at most flow.MaxPayload; may be nil
	Cancel  bool            // call the run off
	Suspend error           // stop working on the run, for this reason; not recorded
}

// Spec is what a run begins with and keeps.
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

// suspended is err as a reason to stop working on the run.
func suspended(err error) error {
	if errors.Is(err, flow.ErrSuspended) {
		return err
	}
	return fmt.Errorf("%w: %w", flow.ErrSuspended, err)
}
