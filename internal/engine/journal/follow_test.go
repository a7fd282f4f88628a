package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// Flow code that no longer matches its journal is caught before it does anything.
func TestNondeterminism(t *testing.T) {
	both := func(f flow.Flow, names ...string) error {
		for _, name := range names {
			if err := f.Do(name, "", nil); err != nil {
				return err
			}
		}
		return nil
	}
	branch := func(name string, names ...string) flow.Branch {
		return flow.Branch{Name: name, Run: func(f flow.Flow) error { return both(f, names...) }}
	}
	first := func(f flow.Flow, _ string) (string, error) {
		err := errors.Join(both(f, "a"), both(f.In("r"), "a", "b"), f.All(0, branch("x", "a"), branch("y", "a")), f.Sleep(0), both(f, "b"))
		if err != nil {
			return "", err
		}
		_, err = f.Await("s", flow.Forever, nil)
		return "", err
	}
	for want, changed := range map[string]func(f flow.Flow) error{
		"asked for b#1, the journal has a#1":       func(f flow.Flow) error { return both(f, "b") },
		"asked for c#1, the journal has a#1":       func(f flow.Flow) error { return both(f, "c") },
		"asked for sleep#1, the journal has a#1":   func(f flow.Flow) error { return f.Sleep(0) },
		"asked for a#2, the journal has sleep#1":   func(f flow.Flow) error { return both(f, "a", "a") },
		"asked for r/b#1, the journal has r/a#1":   func(f flow.Flow) error { return errors.Join(both(f, "a"), both(f.In("r"), "b")) },
		"asked for new/c#1, the journal has r/a#1": func(f flow.Flow) error { return errors.Join(both(f, "a"), both(f.In("new"), "c")) },
		"asked for r/c#1, the journal has ":        func(f flow.Flow) error { return errors.Join(both(f, "a"), both(f.In("r"), "a", "b", "c")) },
		"asked for x/c#1, the journal has x/a#1": func(f flow.Flow) error {
			return errors.Join(both(f, "a"), both(f.In("r"), "a", "b"), f.All(0, branch("x", "c")))
		},
		`a#1: input is "other", was ""`: func(f flow.Flow) error { return f.Do("a", "other", nil) },
		"sleep#1: input is 1, was 0":    func(f flow.Flow) error { return errors.Join(both(f, "a"), f.Sleep(1)) },
		"r/b#1 was never asked for": func(f flow.Flow) error {
			return errors.Join(both(f, "a"), both(f.In("r"), "a"), f.All(0, branch("x", "a")))
		},
		"a#1 was never asked for":  func(f flow.Flow) error { return nil },
		`there is no activity "z"`: func(f flow.Flow) error { return both(f, "z") },
	} {
		var entered []string
		act := func(name string) flow.Activity {
			return flow.Activity{Name: name, Run: func(context.Context, flow.Call, json.RawMessage) (any, error) {
				if entered != nil {
					entered = append(entered, name)
				}
				return nil, nil
			}}
		}
		w := &world{dir: t.TempDir()}
		o := journal.Options{Dir: w.dir, Build: "1", Activities: []flow.Activity{act("a"), act("b"), act("c")}}
		begin(t, o, "")
		var parked *journal.Parked
		if _, err := execute(t, t.Context(), o, first); !errors.As(err, &parked) {
			t.Fatal(err)
		}
		before := w.text("journal.jsonl")
		entered = []string{}
		_, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (string, error) { return "", changed(f) })
		if !errors.Is(err, journal.ErrNondeterministic) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
		if w.text("journal.jsonl") != before || len(entered) != 0 {
			t.Errorf("%s: entered %v, wrote %q", want, entered, strings.TrimPrefix(w.text("journal.jsonl"), before))
		}
		if _, err := execute(t, t.Context(), o, first); !errors.As(err, &parked) {
			t.Errorf("%s: the right code can't go on: %v", want, err)
		}
	}
}

// Another build may encode inputs differently.
func TestInputsOfAnotherBuild(t *testing.T) {
	o := journal.Options{Dir: t.TempDir(), Build: "1", Activities: []flow.Activity{one.With(echo)}}
	begin(t, o, "")
	fn := func(in string) func(flow.Flow, string) (string, error) {
		return func(f flow.Flow, _ string) (string, error) {
			if _, err := one.Do(f, in); err != nil {
				return "", err
			}
			return await(f, "")
		}
	}
	var parked *journal.Parked
	if _, err := execute(t, t.Context(), o, fn("x")); !errors.As(err, &parked) {
		t.Fatal(err)
	}
	o.Build = "2"
	if _, err := execute(t, t.Context(), o, fn("y")); !errors.As(err, &parked) {
		t.Errorf("got %v", err)
	}
}

// A run begun by code 1, which does no icing, is finished as it began. A run of newer code is refused by the
// flow, and the error has both the refusal and what the journal has.
func TestVersions(t *testing.T) {
	for code, want := range map[int]string{1: "", 2: "round-1/ice#1"} {
		w := emptyWorld(t, code)
		var parked *journal.Parked
		if _, err := w.execute(t.Context(), w.options()); !errors.As(err, &parked) {
			t.Fatal(err)
		}
		w.letter("1.json", letter{ID: "1", Signal: "agree", Data: approval{"two", "ann"}})
		o := w.options()
		o.Build = "newer"
		got, err := w.execute(t.Context(), o)
		if err != nil || !reflect.DeepEqual(got, sold) || strings.Contains(w.text("entries"), "ice") != (want != "") {
			t.Errorf("code %d: %+v, %v, entries %s", code, got, err, w.text("entries"))
		}
	}
	w := emptyWorld(t, bakeryCode)
	if _, err := w.execute(t.Context(), w.options()); err == nil {
		t.Fatal("it should park")
	}
	r := open(t, w.options())
	_, err := journal.Execute(t.Context(), r, func(flow.Flow, order) (bill, error) { return bill{}, flow.Fail("journal", "too new") })
	if !errors.Is(err, journal.ErrNondeterministic) || !errors.Is(err, &flow.Failure{Code: "journal"}) || w.history(t).Ended {
		t.Errorf("newer: got %v", err)
	}
}

// A flow must be used by one goroutine only.
func TestTwoGoroutines(t *testing.T) {
	w := &world{dir: t.TempDir()}
	inside, outside := make(chan struct{}), make(chan struct{})
	o := journal.Options{Dir: w.dir, Activities: []flow.Activity{
		one.With(func(context.Context, flow.Call, string) (string, error) { close(inside); <-outside; return "", nil }),
		two.With(func(context.Context, flow.Call, string) (string, error) { t.Error("entered"); return "", nil }),
	}}
	begin(t, o, "")
	_, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (string, error) {
		var other sync.WaitGroup
		other.Go(func() {
			<-inside
			if _, err := two.Do(f, ""); !errors.Is(err, flow.ErrSuspended) {
				t.Errorf("got %v", err)
			}
			close(outside)
		})
		_, err := one.Do(f, "")
		other.Wait()
		return "", err
	})
	if !errors.Is(err, journal.ErrNondeterministic) || !strings.Contains(err.Error(), "one goroutine") {
		t.Errorf("got %v", err)
	}
}

// A Flow that is kept beyond its run returns flow.ErrSuspended from every method.
func TestFlowKept(t *testing.T) {
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(echo)}}
	begin(t, o, "")
	var kept flow.Flow
	if _, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (string, error) { kept = f; return "", nil }); err != nil {
		t.Fatal(err)
	}
	_, awaitErr := kept.Await("s", time.Hour, nil)
	for _, err := range []error{kept.Do("one", "", nil), kept.In("x").Do("one", "", nil), kept.Sleep(0), awaitErr, kept.All(0)} {
		if !errors.Is(err, flow.ErrSuspended) {
			t.Errorf("got %v", err)
		}
	}
}

// A bug in flow code or in an activity fails its own run, not the process with all other runs.
func TestPanic(t *testing.T) {
	for name, fn := range map[string]func(f flow.Flow) error{
		"flow": func(flow.Flow) error { panic("oh no") },
		"branch": func(f flow.Flow) error {
			return f.All(0, flow.Branch{Name: "x", Run: func(flow.Flow) error { panic("oh no") }})
		},
		"nothing":  func(f flow.Flow) error { return f.All(0, flow.Branch{Name: "x"}) },
		"activity": func(f flow.Flow) error { return f.Do("one", "", nil) },
	} {
		o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{
			one.With(func(context.Context, flow.Call, string) (string, error) { panic("oh no") })}}
		begin(t, o, "")
		for range 2 {
			_, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (string, error) { return "", fn(f) })
			if !errors.Is(err, &flow.Failure{Code: "internal"}) || !strings.Contains(err.Error(), "panic: ") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

// A run has used up its number of activities: one call fails for that reason, also after a restart, and some more
// calls let the flow record why it ends. A flow that does not stop then gets nothing more.
func TestTooManyActivities(t *testing.T) {
	calls := 4990
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{
		one.With(func(context.Context, flow.Call, string) (string, error) { calls++; return "", nil })}}
	records := []string{run + `,"in":""`}
	for i := 1; i <= calls; i++ {
		records = append(records, fmt.Sprintf(`"k":"start","id":"one#%d","name":"one","try":1,"in":""`, i), fmt.Sprintf(`"k":"done","id":"one#%d","out":""`, i))
	}
	must(os.WriteFile(filepath.Join(o.Dir, "journal.jsonl"), chained(records), 0o600))
	fn := func(f flow.Flow, _ string) (string, error) {
		var failed []int
		for i := 1; i <= 5103; i++ {
			_, err := one.Do(f, "")
			if errors.Is(err, flow.ErrSuspended) {
				return "", err
			}
			if err != nil && !errors.Is(err, &flow.Failure{Code: "internal"}) {
				return "", err
			}
			if err != nil {
				failed = append(failed, i)
			}
		}
		if ok, err := f.Await("s", flow.Forever, nil); ok || !errors.Is(err, &flow.Failure{Code: "internal"}) {
			t.Errorf("await: %v, %v", ok, err)
		}
		return fmt.Sprint(failed), nil
	}
	got, err := execute(t, t.Context(), o, fn)
	if want := "[5001 5102 5103]"; err != nil || got != want || calls != 5100 {
		t.Errorf("failed %s, %v, %d calls, want %s, 5100", got, err, calls, want)
	}
	h, err := journal.Read(o.Dir)
	if err != nil || len(h.Calls) != 5101 || h.Calls[5000].Fail == nil {
		t.Errorf("%d calls in the journal, %v", len(h.Calls), err)
	}
}

// The result of the flow is kept beside its failure. A result that is too large is dropped; the failure stays, or reports that.
func TestResults(t *testing.T) {
	large := strings.Repeat("x", flow.MaxPayload)
	for name, test := range map[string]struct {
		out     string
		err     error
		want    string
		wantErr string
	}{
		"good":               {"fine", nil, "fine", ""},
		"failed":             {"so far", flow.Fail("agent_exit", "1"), "so far", "agent_exit: 1"},
		"failed and large":   {large, flow.Fail("agent_exit", "1"), "", "agent_exit: 1"},
		"large":              {large, nil, "", "internal: the result can't be kept: 65538 bytes are too many, at most 65536"},
		"cancelled":          {"so far", fmt.Errorf("baking: %w", flow.ErrCancelled), "so far", "cancelled: baking: cancelled"},
		"cancelled branches": {"", errors.Join(flow.ErrCancelled, errors.Join(flow.ErrCancelled, flow.Fail("commit_failed", "x"))), "", "cancelled: commit_failed: x"},
		"foreign":            {"so far", errors.New("no file"), "so far", "internal: no file"},
	} {
		o := journal.Options{Dir: t.TempDir()}
		begin(t, o, "")
		for range 2 {
			got, err := execute(t, t.Context(), o, func(flow.Flow, string) (string, error) { return test.out, test.err })
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != test.want || text != test.wantErr || errors.Is(test.err, flow.ErrCancelled) != errors.Is(err, flow.ErrCancelled) {
				t.Errorf("%s: got %q, %v, want %q, %q", name, got, err, test.want, test.wantErr)
			}
		}
	}
}
