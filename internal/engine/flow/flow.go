// Package flow is the interface that durable code is written against: activities, waits and branches.
//
// Flow code is straight-line Go that takes a [Flow] and does nothing itself: it has no clock, disk,
// random, goroutine, channel or map order of its own, so that an engine can run it again after a crash
// and let everything that is already finished answer from a record. Effects live in activities.
package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Flow is one durable run as its code sees it. A Flow belongs to one goroutine; [Flow.All] hands
// each branch its own. Every error it returns is nil, a [*Failure], [ErrCancelled], [ErrSuspended],
// or branch errors joined. After ErrCancelled or ErrSuspended, flow code returns without further calls
// (other than through [Flow.Shield] after a cancel).
type Flow interface {
	// Do runs the activity called name with input in and decodes its result into out (nil: dropped).
	// In a resumed run a finished activity answers from the record. Input and result are JSON of at
	// most MaxPayload bytes: pass paths and hashes, never transcripts. An activity that was cut off is
	// entered again with Call.Attempt one higher.
	Do(name string, in, out any) error
	// Sleep returns once d has passed since it was first called, time without a process included.
	Sleep(d time.Duration) error
	// Await takes the oldest signal of that name that no other Await took, and decodes it into out.
	// It reports false when limit passed first. Limit 0 looks without waiting, Forever has no end.
	// The process may end while a run waits.
	Await(signal string, limit time.Duration, out any) (bool, error)
	// All runs the branches, at most n at a time (0: no limit), each in a scope of its name and not
	// before the branches it names in After have ended. It waits for all of them and joins their errors.
	All(n int, branches ...Branch) error
	// In is this flow within a scope below the current one: ids are <scope>/<activity>#<nth call in scope>.
	In(scope string) Flow
	// Shield is this flow deaf to cancellation, for saving work after ErrCancelled.
	Shield() Flow
}

// Branch is one part of [Flow.All]. A branch uses the Flow it is given and no other. What it shares
// with other branches it may touch only where After orders them.
type Branch struct {
	Name  string
	After []string
	Run   func(Flow) error
}

const (
	// Forever is the limit of an Await that never passes.
	Forever = time.Duration(-1)
	// MaxPayload is the largest input or result of an activity, in bytes of JSON.
	MaxPayload = 64 << 10
)

var (
	// ErrCancelled says that a person called the run off. Work may be saved through Shield.
	ErrCancelled = errors.New("cancelled")
	// ErrSuspended says that this process stops working on the run, which goes on later:
	// an interrupt, a wait that parks, a lost lock, a full disk. Nothing the flow does after it has an effect.
	ErrSuspended = errors.New("suspended")
)

// Failure is an outcome that flow code decides on. It survives the journal; errors.Is matches by Code.
type Failure struct {
	Code      string    `json:"code"`                // one of the failure codes of package trellis
	Detail    string    `json:"detail,omitempty"`    // for people
	Retryable bool      `json:"retryable,omitempty"` // trying the same again can help
	At        time.Time `json:"at,omitzero"`
	ResumeAt  time.Time `json:"resume_at,omitzero"` // not before this, when the cause says so (rate limits)
}

func (f *Failure) Error() string {
	if f.Detail == "" {
		return f.Code
	}
	return f.Code + ": " + f.Detail
}

// Is reports whether target is a Failure of the same code, across processes.
func (f *Failure) Is(target error) bool {
	t, ok := target.(*Failure)
	return ok && t.Code == f.Code
}

// Fail is a Failure that trying again does not mend.
func Fail(code, format string, args ...any) *Failure {
	return &Failure{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// AsFailure is err as a *Failure; what was none becomes code "internal".
func AsFailure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return &Failure{Code: "internal", Detail: err.Error()}
}

// Call names one entry into an activity.
type Call struct {
	Run     string // <task>/<run number>
	ID      string // <scope>/<activity>#<n>, the same at every entry
	Attempt int    // 1, 2, …; above 1 an earlier entry was cut off and may have left its effect
}

// Key is the idempotency key of the activity's effect: a commit trailer, a marker, a folder below run/.
func (c Call) Key() string { return c.Run + "/" + c.ID }

// Activity is an effect that an engine can run by name. Its context ends on cancel and on suspend.
// It always looks for its own effect first, by Call.Key, since an entry may have been cut off after
// the effect and before the record. Errors that are no *Failure become code "internal".
type Activity struct {
	Name string
	Run  func(ctx context.Context, c Call, in json.RawMessage) (any, error)
	// Lazy says that the record of its outcome needn't wait for the disk: it gets there with the next one that does, or
	// within seconds. A power cut may take it, never a crash of the process, and then the activity is entered again.
	Lazy bool
}

// Act is the name of an activity together with the types of its input and result.
type Act[I, O any] string

// Do runs the activity on f.
func (a Act[I, O]) Do(f Flow, in I) (out O, err error) {
	err = f.Do(string(a), in, &out)
	return out, err
}

// With binds the activity to the code that performs it.
func (a Act[I, O]) With(run func(context.Context, Call, I) (O, error)) Activity {
	return Activity{Name: string(a), Run: func(ctx context.Context, c Call, raw json.RawMessage) (any, error) {
		var in I
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, fmt.Errorf("decoding input of %s: %w", a, err)
		}
		return run(ctx, c, in)
	}}
}
