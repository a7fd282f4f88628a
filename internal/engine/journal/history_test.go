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

// The format: what a journal of version 1 contains. This file never changes.
func TestGolden(t *testing.T) {
	got, err := journal.ReadFile("testdata/version-1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	at := func(second int) time.Time { return time.Date(2026, 11, 20, 13, 0, second, 0, time.UTC) }
	want := &journal.History{Run: "11-20-cake/1", Flow: "bakery", Code: 2, Build: "v1.0.0", Input: json.RawMessage(`{"Cakes":1}`), Began: at(0),
		Calls: []journal.Entry{
			{ID: "bake#1", Activity: "bake", Entries: 2, Started: at(1), Finished: at(3), Done: true, In: json.RawMessage(`"dough"`), Out: json.RawMessage(`"baked"`)},
			{ID: "round-1/taste#1", Activity: "taste", Entries: 1, Started: at(4), Finished: at(5), Done: true, In: json.RawMessage(`1`),
				Fail: &flow.Failure{Code: "agent_exit", Detail: "exit 1", Retryable: true, At: at(5)}},
			{ID: "await:agree#1", Activity: "await:agree", Entries: 1, Started: at(6), Finished: at(8), Done: true, In: json.RawMessage(`-1`), Out: json.RawMessage(`{"By":"ann"}`)},
			{ID: "sleep#1", Activity: "sleep", Entries: 1, Started: at(10), Finished: at(12), Done: true, In: json.RawMessage(`3600000000000`), Fail: &flow.Failure{Code: "cancelled"}},
			{ID: "cancel/freeze#1", Activity: "freeze", Entries: 1, Started: at(13), In: json.RawMessage(`"parts"`)},
		},
		Signals: []journal.Signal{
			{ID: "1", Name: "agree", Data: json.RawMessage(`{"By":"ann"}`), At: at(7), Taken: true},
			{ID: "2", Name: "agree", At: at(9)},
		},
		Cancelled: true, Ended: true, EndedAt: at(14), End: &flow.Failure{Code: "cancelled"}, Out: json.RawMessage(`{"Cake":""}`),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// Reading leaves the folder unchanged, also when the journal has a torn end.
func TestReadOnly(t *testing.T) {
	w := newWorld(t, bakeryCode)
	if _, err := w.execute(t.Context(), w.options()); err != nil {
		t.Fatal(err)
	}
	torn := w.text("run/journal.jsonl")[:1000]
	w.write("run/journal.jsonl", torn)
	before, err := os.ReadDir(w.path("run"))
	must(err)
	h := w.history(t)
	after, err := os.ReadDir(w.path("run"))
	must(err)
	if h.Ended || len(h.Calls) == 0 || w.text("run/journal.jsonl") != torn || len(before) != len(after) {
		t.Errorf("got %+v; %d files, then %d", h, len(before), len(after))
	}
}

func TestReadDamaged(t *testing.T) {
	w := newWorld(t, bakeryCode)
	if _, err := w.execute(t.Context(), w.options()); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(w.text("run/journal.jsonl"), "\n")
	w.write("run/journal.jsonl", strings.Join(append(lines[:10:10], lines[11:]...), ""))
	h, err := journal.Read(w.path("run"))
	if !errors.Is(err, journal.ErrDamaged) || h == nil || h.Run != "task/1" || len(h.Calls) == 0 || h.Ended {
		t.Errorf("got %+v, %v", h, err)
	}
}

func TestReadNothing(t *testing.T) {
	dir := t.TempDir()
	for _, dir := range []string{dir, filepath.Join(dir, "gone")} {
		if h, err := journal.Read(dir); h != nil || !errors.Is(err, journal.ErrNone) {
			t.Errorf("got %+v, %v", h, err)
		}
		if files, err := journal.Archived(dir); err != nil || len(files) != 0 {
			t.Errorf("archived %v, %v", files, err)
		}
	}
}

// Readers run beside a writer that is cut off, removes the torn end and goes on: they never see damage, and never less
// than before.
func TestReadBesideWriter(t *testing.T) {
	const runs, calls = 30, 20
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(echo)}}
	begin(t, o, "")
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for seen := 0; ctx.Err() == nil; {
				h, err := journal.Read(o.Dir)
				if err != nil || len(h.Calls) < seen {
					t.Errorf("%d calls after %d, %v", len(h.Calls), seen, err)
					return
				}
				seen = len(h.Calls)
			}
		})
	}
	for i := 1; i <= runs; i++ {
		_, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (string, error) {
			for j := range i * calls {
				if _, err := one.Do(f, fmt.Sprint(j)); err != nil {
					return "", err
				}
			}
			return await(f, "")
		})
		var parked *journal.Parked
		if i == 1 && !errors.As(err, &parked) {
			t.Fatal(err)
		}
		tear(t, filepath.Join(o.Dir, "journal.jsonl"), i)
	}
	stop()
	readers.Wait()
}

// tear leaves part of a line at the end, as a process does that is killed while writing.
func tear(t *testing.T, name string, n int) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Repeat("x", 17000*n)); err != nil {
		t.Fatal(err)
	}
}

// The history of a Run shows an activity while it runs.
func TestHistoryWhileRunning(t *testing.T) {
	var r *journal.Run
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(func(context.Context, flow.Call, string) (string, error) {
		if h := r.History(); len(h.Calls) != 1 || h.Calls[0].Done || h.Number != 1 {
			t.Errorf("got %+v", h)
		}
		return "", nil
	})}}
	begin(t, o, "")
	r = open(t, o)
	if _, err := journal.Execute(t.Context(), r, func(f flow.Flow, _ string) (string, error) { return one.Do(f, "") }); err != nil {
		t.Fatal(err)
	}
	if h := r.History(); !h.Ended || !h.Calls[0].Done {
		t.Errorf("got %+v", h)
	}
}
