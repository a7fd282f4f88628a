package journal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

const (
	one flow.Act[string, string] = "one"
	two flow.Act[string, string] = "two"
)

func echo(_ context.Context, _ flow.Call, in string) (string, error) { return in, nil }

func TestTwoOwners(t *testing.T) {
	o := journal.Options{Dir: t.TempDir(), Holder: durable.Holder{PID: 4711, Host: "here"}}
	begin(t, o, "")
	r := open(t, o)
	var held *durable.HeldError
	if _, err := journal.Open(o); !errors.As(err, &held) || held.Holder.PID != 4711 {
		t.Errorf("second Open: %v", err)
	}
	if err := journal.Begin(o, spec(2)); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("second Begin: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	open(t, o)
}

// thefts are the ways to lose a run without being notified.
var thefts = map[string]func(dir string) error{
	"folder removed": os.RemoveAll,
	"lock removed":   func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
	"lock replaced": func(dir string) error {
		return errors.Join(os.Remove(filepath.Join(dir, "lock")), os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
	},
	"journal removed": func(dir string) error { return os.Remove(filepath.Join(dir, "journal.jsonl")) },
	"journal replaced by a copy": func(dir string) error {
		name := filepath.Join(dir, "journal.jsonl")
		data, err := os.ReadFile(name)
		return errors.Join(err, os.Rename(name, name+".old"), os.WriteFile(name, data, 0o600))
	},
	"journal written": func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("{}\n")
		return errors.Join(err, f.Close())
	},
	"journal cut": func(dir string) error { return os.Truncate(filepath.Join(dir, "journal.jsonl"), 10) },
}

// A run that was taken over appends nothing, not even a success, and reports that.
func TestFencedAppend(t *testing.T) {
	for name, steal := range thefts {
		dir := filepath.Join(t.TempDir(), "run")
		var stolen []byte
		o := journal.Options{Dir: dir, Activities: []flow.Activity{one.With(func(context.Context, flow.Call, string) (string, error) {
			err := steal(dir)
			stolen, _ = os.ReadFile(filepath.Join(dir, "journal.jsonl"))
			return "", err
		}), two.With(func(context.Context, flow.Call, string) (string, error) {
			t.Errorf("%s: went on", name)
			return "", nil
		})}}
		begin(t, o, "")
		_, err := execute(t, t.Context(), o, func(f flow.Flow, in string) (string, error) {
			if _, err := one.Do(f, ""); !errors.Is(err, flow.ErrSuspended) {
				t.Errorf("%s: the flow got %v", name, err)
			}
			return two.Do(f, "")
		})
		if !errors.Is(err, journal.ErrFenced) || !errors.Is(err, flow.ErrSuspended) {
			t.Errorf("%s: got %v, want %v", name, err, journal.ErrFenced)
		}
		if now, _ := os.ReadFile(filepath.Join(dir, "journal.jsonl")); string(now) != string(stolen) {
			t.Errorf("%s: wrote %q", name, now[len(stolen):])
		}
	}
}

// A folder that is being removed, the lock or the journal first, is reported as gone, and not as taken over.
func TestRemovedFileByFile(t *testing.T) {
	for _, first := range []string{"lock", "journal.jsonl"} {
		dir := filepath.Join(t.TempDir(), "run")
		o := journal.Options{Dir: dir, Activities: []flow.Activity{one.With(func(context.Context, flow.Call, string) (string, error) {
			return "", os.Remove(filepath.Join(dir, first))
		})}}
		begin(t, o, "")
		_, err := execute(t, t.Context(), o, func(f flow.Flow, in string) (string, error) {
			_, err := one.Do(f, "")
			time.AfterFunc(20*time.Millisecond, func() { os.RemoveAll(dir) })
			return "", err
		})
		if !errors.As(err, new(*journal.GoneError)) {
			t.Errorf("%s first: got %v", first, err)
		}
	}
}

// A run that was taken over while its agent works is stopped within five seconds, or when poked.
func TestFencedWhileWorking(t *testing.T) {
	for name, steal := range thefts {
		synctest.Test(t, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			o := journal.Options{Dir: dir, Activities: []flow.Activity{one.With(func(ctx context.Context, _ flow.Call, _ string) (string, error) {
				if err := steal(dir); err != nil {
					return "", err
				}
				begin := time.Now()
				<-ctx.Done()
				if took := time.Since(begin); took > 5*time.Second || !errors.Is(context.Cause(ctx), journal.ErrFenced) {
					t.Errorf("%s: stopped after %v: %v", name, took, context.Cause(ctx))
				}
				return "", ctx.Err()
			})}}
			begin(t, o, "")
			_, err := execute(t, t.Context(), o, func(f flow.Flow, in string) (string, error) { return one.Do(f, "") })
			if !errors.Is(err, journal.ErrFenced) {
				t.Errorf("%s: got %v, want %v", name, err, journal.ErrFenced)
			}
		})
	}
}

// A second process that gets in, because the lock was removed, owns the run.
func TestTakenOver(t *testing.T) {
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(echo)}}
	begin(t, o, "")
	first := open(t, o)
	if err := os.Remove(filepath.Join(o.Dir, "lock")); err != nil {
		t.Fatal(err)
	}
	fn := func(f flow.Flow, in string) (string, error) { return one.Do(f, "second") }
	if got, err := execute(t, t.Context(), o, fn); err != nil || got != "second" {
		t.Errorf("second: %q, %v", got, err)
	}
	_, err := journal.Execute(t.Context(), first, fn)
	if !errors.Is(err, journal.ErrFenced) {
		t.Errorf("first: %v, want %v", err, journal.ErrFenced)
	}
	if err := first.Begin(spec(2)); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("first begins: %v, want %v", err, journal.ErrFenced)
	}
	if h, err := journal.Read(o.Dir); err != nil || !h.Ended {
		t.Errorf("got %+v, %v", h, err)
	}
}

// The lock names what the former holder may have left running until that was cleared away, whatever fails in
// between.
func TestClear(t *testing.T) {
	dead := durable.Holder{Claim: 1, PID: 11, Guard: 12, GuardStart: "x", Marker: "dead", Cgroups: "/dead"}
	o := journal.Options{Dir: t.TempDir(), Holder: dead}
	begin(t, o, "")
	alive := errors.New("process 13 does not end")
	for range 2 {
		refused := o
		refused.Holder = durable.Holder{Claim: 2, PID: 21, Guard: 22, Marker: "second", Cgroups: "/second"}
		refused.Clear = func(former durable.Holder) error {
			if former != dead {
				t.Errorf("to clear: %+v, want %+v", former, dead)
			}
			if now, err := durable.ReadHolder(filepath.Join(o.Dir, "lock")); err != nil || now.PID != 21 || now.Marker != "dead" || now.Cgroups != "/dead" {
				t.Errorf("while clearing the lock says %+v, %v", now, err)
			}
			return alive
		}
		if _, err := journal.Open(refused); !errors.Is(err, alive) {
			t.Errorf("got %v, want %v", err, alive)
		}
		if now, err := durable.ReadHolder(filepath.Join(o.Dir, "lock")); err != nil || now != dead {
			t.Errorf("after a refusal the lock says %+v, %v", now, err)
		}
	}
	o.Holder = durable.Holder{Claim: 3, PID: 31, Guard: 32, Marker: "third"}
	o.Clear = func(durable.Holder) error { return nil }
	open(t, o)
	if now, err := durable.ReadHolder(filepath.Join(o.Dir, "lock")); err != nil || now != o.Holder {
		t.Errorf("the lock says %+v, %v, want %+v", now, err, o.Holder)
	}
}
