package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// Execute runs the flow code fn as r's run, from its beginning or from where it stopped. For a run that has ended, it returns the
// same result and error as the first time.
//
// If the run ended, the error is nil, the flow's *flow.Failure, or flow.ErrCancelled. Otherwise the result is zero and the error
// is
//
//   - *Parked: the whole run waits; it continues when it is executed again
//   - one that matches flow.ErrSuspended, with its cause: ctx ended, a message or an activity asked for it,
//     a record could not be written, or (ErrFenced) another process took over
//   - ErrNondeterministic or ErrNone
//
// Execute waits for every activity that it has entered. A panic of flow code or of an activity becomes a failure of code
// internal. A Run executes one flow at a time. After *Parked or the end of ctx it may be executed again; after a failed write the
// run has to be opened again.
func Execute[I, O any](ctx context.Context, r *Run, fn func(flow.Flow, I) (O, error)) (out O, err error) {
	var in I
	raw, err := r.input()
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return out, fmt.Errorf("decoding the input of the run in %s: %w", r.o.Dir, err)
	}
	end, err := r.execute(ctx, func(f flow.Flow) (any, error) { return fn(f, in) })
	if err != nil {
		return out, err
	}
	if len(end.Out) > 0 {
		if err := json.Unmarshal(end.Out, &out); err != nil {
			return out, fmt.Errorf("decoding the result of the run in %s: %w", r.o.Dir, err)
		}
	}
	if end.Fail != nil {
		return out, fromFailure(end.Fail)
	}
	return out, nil
}

// input returns the input of the run.
func (r *Run) input() (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil, fmt.Errorf("%s: %w", r.o.Dir, ErrNone)
	}
	if in := r.file.ledger.spec.In; len(in) > 0 {
		return in, nil
	}
	return json.RawMessage("null"), nil
}

// execute is Execute without type parameters. It returns the run's last record.
func (r *Run) execute(ctx context.Context, fn func(flow.Flow) (any, error)) (*record, error) {
	e, end, err := r.engine(ctx)
	if err != nil || end != nil {
		return end, err
	}
	defer r.endExecution()
	stop := e.startKeeper(ctx)
	defer stop()
	out, err := safely(func() (any, error) { return fn(e.root()) })
	e.branches.Wait()
	stop()
	end, err = e.recordEnd(out, err)
	return end, r.asGoneError(err)
}

// asGoneError replaces ErrFenced by a GoneError if the run's folder was removed, rather than taken over by another process.
func (r *Run) asGoneError(err error) error {
	if !errors.Is(err, ErrFenced) || durable.Exists(filepath.Join(r.o.Dir, lockName)) && durable.Exists(filepath.Join(r.o.Dir, journalName)) || !durable.WaitGone(r.o.Dir) {
		return err
	}
	return asSuspended(&GoneError{r.o.Dir})
}

// engine creates the engine of one Execute. For a run that has ended, it returns the last record instead.
func (r *Run) engine(ctx context.Context) (*engine, *record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.busy:
		return nil, nil, fmt.Errorf("executing %s: it is being executed", r.o.Dir)
	case r.file == nil:
		return nil, nil, fmt.Errorf("%s: %w", r.o.Dir, ErrNone)
	case r.file.ledger.end != nil:
		return nil, r.file.ledger.end, nil
	case ctx.Err() != nil:
		return nil, nil, asSuspended(context.Cause(ctx))
	}
	r.busy = true
	return newEngine(ctx, r), nil, nil
}

func (r *Run) endExecution() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
}

// recordEnd writes the last record, unless the run is to be resumed later.
func (e *engine) recordEnd(out any, err error) (*record, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.halt(errNotExecuted)
	if errors.Is(err, flow.ErrSuspended) {
		e.halt(asSuspended(err))
	}
	if c := e.unaskedIn(""); c != nil && e.stop == nil {
		e.halt(e.neverAskedError(c, err))
	}
	if e.stop != nil {
		return nil, e.stop
	}
	r := &record{Kind: kindEnd}
	r.Out, r.Fail = outcome(out, err)
	if err := e.append(r); err != nil {
		return nil, err
	}
	return r, nil
}

// errNotExecuted stops code that uses a Flow after its Execute has returned.
var errNotExecuted = errors.New("the run is not being executed")

func (e *engine) neverAskedError(c *call, err error) error {
	if err != nil { // the flow itself may say why it can't follow the journal, as a version that is too old does
		return fmt.Errorf("%w: %s was never asked for: %w", ErrNondeterministic, c.id, err)
	}
	return fmt.Errorf("%w: %s was never asked for", ErrNondeterministic, c.id)
}

// outcome returns a result and an error in the form in which a record stores them.
func outcome(v any, err error) (json.RawMessage, *flow.Failure) {
	out, encodeErr := json.Marshal(v)
	if encodeErr == nil {
		encodeErr = checkPayload(out)
	}
	switch {
	case err != nil && encodeErr != nil:
		return nil, toFailure(err)
	case err != nil:
		return out, toFailure(err)
	case encodeErr != nil:
		return nil, internalFailure("the result can't be kept: %v", encodeErr)
	}
	return out, nil
}

// safely calls fn and returns a panic as a failure.
func safely[T any](fn func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = internalFailure("panic: %v\n%s", p, excerpt(debug.Stack(), 4<<10))
		}
	}()
	return fn()
}

// excerpt returns the beginning of text, for messages.
func excerpt(text []byte, limit int) string {
	if len(text) <= limit {
		return string(text)
	}
	return string(text[:limit]) + "…"
}
