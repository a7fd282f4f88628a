// Package flow is the interface that durable code is written against: activities, waits and branches.
//
// Flow code is straight-line Go that takes a [Flow] and has no effects itself: it uses no clock, disk, random numbers,
// goroutines, channels or map order, so that an engine can run it again after a crash and answer every finished step from a
// record. Effects belong in activities.
package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Flow is one durable run as its code sees it. A Flow belongs to one goroutine; [Flow.All] gives each branch a separate one.
// Every error that its methods return is nil, a [*Failure], [ErrCancelled], [ErrSuspended], or joined errors of branches. After
// ErrCancelled or ErrSuspended, flow code returns without further calls, except through [Flow.Shield] after a cancel.
type Flow interface {
	// Do runs the activity called name with input in and decodes its result into out (nil: the result is dropped). In a resumed
	// run, a finished activity answers from the record. Input and result are JSON of at most MaxPayload bytes: pass paths and
	// hashes, never transcripts. An activity that was cut off is entered again with Call.Attempt incremented.
	Do(name string, in, out any) error
	// Sleep returns once d has passed since the first call. Time in which no process runs counts.
	Sleep(d time.Duration) error
	// Await takes the oldest signal of that name that no other Await took, and decodes it into out. It returns false if limit
	// passed first. Limit 0 checks without waiting, and with Forever there is no limit. The process may end while a run waits.
	Await(signal string, limit time.Duration, out any) (bool, error)
	// All runs the branches, at most n at a time (0: no limit). Each runs in a scope of its name, after the branches listed in
	// its After have ended. All waits for all branches and joins their errors.
	All(n int, branches ...Branch) error
	// In returns this flow within a scope below the current one: ids are <scope>/<activity>#<nth call in scope>.
	In(scope string) Flow
	// Shield returns this flow with cancellation ignored, for saving work after ErrCancelled.
	Shield() Flow
}

// Branch is one part of [Flow.All]. A branch uses only the Flow that it is given. It may access what it shares with other
// branches only if After orders them.
type Branch struct {
	Name  string
	After []string
	Run   func(Flow) error
}

const (
	// Forever is the limit of an Await that waits without limit.
	Forever = time.Duration(-1)
	// MaxPayload is the largest input or result of an activity, in bytes of JSON.
	MaxPayload = 64 << 10
)

var (
	// ErrCancelled means that a person called the run off. Work may be saved through Shield.
	ErrCancelled = errors.New("cancelled")
	// ErrSuspended means that this process stops working on the run, which is resumed later: because of an interrupt, a wait that
	// parks, a lost lock or a full disk. Nothing that the flow does afterwards has an effect.
	ErrSuspended = errors.New("suspended")
)

// Failure is an outcome that flow code can act on. It is stored in the journal; errors.Is matches it by Code.
type Failure struct {
	Code      string    `json:"code"`                // one of the failure codes of package trellis
	Detail    string    `json:"detail,omitempty"`    // text for people
	Retryable bool      `json:"retryable,omitempty"` // retrying may help
	At        time.Time `json:"at,omitzero"`
	ResumeAt  time.Time `json:"resume_at,omitzero"` // earliest time for a retry, if known (rate limits)
}

func (f *Failure) Error() string {
	if f.Detail == "" {
		return f.Code
	}
	return f.Code + ": " + f.Detail
}

// Is reports whether target is a Failure with the same code, even one of another process.
func (f *Failure) Is(target error) bool {
	t, ok := target.(*Failure)
	return ok && t.Code == f.Code
}

// Fail returns a Failure that is not retryable.
func Fail(code, format string, args ...any) *Failure {
	return &Failure{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// AsFailure returns err as a *Failure. An error that is not a Failure gets code "internal".
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
	Attempt int    // 1, 2, …; if above 1, an earlier entry was cut off and may have had its effect
}

// Key returns the idempotency key of the activity's effect: a commit trailer, a marker, a folder below run/.
func (c Call) Key() string { return c.Run + "/" + c.ID }

// Activity is an effect that an engine can run by name. Its context ends on cancel and on suspend. It always checks for its own
// effect first, by Call.Key, since an entry may have been cut off after the effect and before the record. An error that is not a
// *Failure gets code "internal".
type Activity struct {
	Name string
	Run  func(ctx context.Context, c Call, in json.RawMessage) (any, error)
	// Lazy means that the record of the outcome is not synced at once: it is synced with the next record that is, or within
	// seconds. If a power cut loses the record, which a crash of the process never does, the activity is entered again.
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
