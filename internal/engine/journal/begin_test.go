package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

func spec(n int) journal.Spec {
	return journal.Spec{Run: fmt.Sprintf("task/%d", n), Flow: "pipeline", Code: n, Input: json.RawMessage(fmt.Sprintf(`{ "n": %d }`, n))}
}

func TestBegin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	o := journal.Options{Dir: dir, Build: "v1"}
	r := open(t, o)
	if h := r.History(); !h.Empty() || h.Number != 0 {
		t.Errorf("before: %+v", h)
	}
	if _, err := journal.Execute(t.Context(), r, func(flow.Flow, int) (int, error) { return 1, nil }); !errors.Is(err, journal.ErrNone) {
		t.Errorf("executing nothing: %v", err)
	}
	if err := r.Begin(spec(1)); err != nil {
		t.Fatal(err)
	}
	h := r.History()
	if h.Run != "task/1" || h.Flow != "pipeline" || h.Code != 1 || h.Build != "v1" || string(h.Input) != `{"n":1}` ||
		h.Began.IsZero() || h.Number != 1 || h.Empty() || h.Ended {
		t.Errorf("got %+v", h)
	}
	for name, want := range map[string]fs.FileMode{".": 0o700, "journal.jsonl": 0o600, "lock": 0o600, ".gitignore": 0o600} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v, want %v", name, st.Mode(), err, want)
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	dir := t.TempDir()
	o := journal.Options{Dir: filepath.Join(dir, "run")}
	for name, err := range map[string]error{
		"no name":             journal.Begin(o, journal.Spec{}),
		"broken input":        journal.Begin(o, journal.Spec{Run: "t/1", Input: json.RawMessage("{")}),
		"large input":         journal.Begin(o, journal.Spec{Run: "t/1", Input: json.RawMessage(`"` + strings.Repeat("x", flow.MaxPayload) + `"`)}),
		"a task that is gone": journal.Begin(journal.Options{Dir: filepath.Join(dir, "gone", "run")}, spec(1)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := journal.Read(o.Dir); !errors.Is(err, journal.ErrNone) {
		t.Errorf("got %v, want %v", err, journal.ErrNone)
	}
	if _, err := os.Stat(filepath.Join(dir, "gone")); err == nil {
		t.Error("the folder of the task was made")
	}
}

// Open rejects activities whose names would make the ids of calls ambiguous.
func TestActivityNames(t *testing.T) {
	for _, names := range [][]string{{"a", "a"}, {""}, {"sleep"}, {"await:x"}, {"a/b"}, {"a#1"}, {".."}} {
		var acts []flow.Activity
		for _, name := range names {
			acts = append(acts, flow.Activity{Name: name})
		}
		if _, err := journal.Open(journal.Options{Dir: t.TempDir(), Activities: acts}); err == nil {
			t.Errorf("%q: no error", names)
		}
	}
}

// Earlier runs are kept under their number, also on file systems without hard links.
func TestRotation(t *testing.T) {
	for name, disk := range map[string]*durable.Disk{
		"links":    nil,
		"no links": {Fault: failing("link", syscall.EOPNOTSUPP)},
	} {
		dir := t.TempDir()
		for n := 1; n <= 11; n++ {
			if err := journal.Begin(journal.Options{Dir: dir, Disk: disk}, spec(n)); err != nil {
				t.Fatal(err)
			}
			if h, err := journal.Read(dir); err != nil || h.Code != n || h.Number != n {
				t.Errorf("%s: got %+v, %v, want run %d", name, h, err, n)
			}
		}
		wantArchived(t, dir, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	}
}

// wantArchived compares the codes of the earlier runs of dir.
func wantArchived(t *testing.T, dir string, want ...int) {
	t.Helper()
	files, err := journal.Archived(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for i, file := range files {
		h, err := journal.ReadFile(file)
		if err != nil || h.Number != i+1 {
			t.Errorf("%s: %+v, %v", file, h, err)
		}
		got = append(got, h.Code)
	}
	if !slices.Equal(got, want) {
		t.Errorf("archived %v, want %v", got, want)
	}
}

func failing(step string, err error) func(string, string) error {
	return func(s, _ string) error {
		if s == step {
			return err
		}
		return nil
	}
}

// Begin fails at any step, as if it were killed there: a reader finds the old run or the new one, and the next
// Begin keeps each run once.
func TestBeginFails(t *testing.T) {
	for at := 1; ; at++ {
		dir, step := t.TempDir(), 0
		for n := 1; n <= 2; n++ {
			if err := journal.Begin(journal.Options{Dir: dir}, spec(n)); err != nil {
				t.Fatal(err)
			}
		}
		err := journal.Begin(journal.Options{Dir: dir, Disk: &durable.Disk{Fault: func(string, string) error {
			if step++; step == at {
				return syscall.EIO
			}
			return nil
		}}}, spec(3))
		if step < at {
			if at < 5 {
				t.Errorf("only %d steps", step)
			}
			return
		}
		h, readErr := journal.Read(dir)
		if !errors.Is(err, syscall.EIO) || readErr != nil || h.Code != h.Number || h.Code < 2 {
			t.Fatalf("step %d: %v; then %+v, %v", at, err, h, readErr)
		}
		if got := open(t, journal.Options{Dir: dir}); got.History().Code != h.Code || got.Close() != nil {
			t.Errorf("step %d: opened %+v", at, got.History())
		}
		if err := journal.Begin(journal.Options{Dir: dir}, spec(h.Code+1)); err != nil {
			t.Errorf("step %d: again: %v", at, err)
		}
		wantArchived(t, dir, []int{1, 2, 3}[:h.Code]...)
	}
}

// A crash after the old journal got its second name, before it lost the first; then the old run was resumed.
func TestRotationGoesOn(t *testing.T) {
	dir := t.TempDir()
	begin(t, journal.Options{Dir: dir}, 1)
	if err := os.Link(filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "journal.1.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, t.Context(), journal.Options{Dir: dir}, func(flow.Flow, int) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if h, err := journal.Read(dir); err != nil || h.Number != 1 || !h.Ended {
		t.Errorf("got %+v, %v", h, err)
	}
	wantArchived(t, dir)
	if err := journal.Begin(journal.Options{Dir: dir}, spec(2)); err != nil {
		t.Fatal(err)
	}
	wantArchived(t, dir, 1)
}

// Begin works even if the existing journal can't be read.
func TestBeginOverDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte("oh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(journal.Options{Dir: dir}); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("got %v, want %v", err, journal.ErrDamaged)
	}
	if err := journal.Begin(journal.Options{Dir: dir}, spec(1)); err != nil {
		t.Fatal(err)
	}
	if h, err := journal.Read(dir); err != nil || h.Number != 2 {
		t.Errorf("got %+v, %v", h, err)
	}
}

func TestBeginDuringExecute(t *testing.T) {
	o := journal.Options{Dir: t.TempDir()}
	begin(t, o, 1)
	r := open(t, o)
	_, err := journal.Execute(t.Context(), r, func(flow.Flow, int) (int, error) {
		if err := r.Begin(spec(2)); err == nil {
			t.Error("began a run during another")
		}
		if _, err := journal.Execute(t.Context(), r, func(flow.Flow, int) (int, error) { return 0, nil }); err == nil {
			t.Error("executed a run twice at a time")
		}
		return 1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(spec(2)); err != nil {
		t.Error(err)
	}
	got, err := journal.Execute(t.Context(), r, func(_ flow.Flow, in struct{ N int }) (int, error) { return in.N, nil })
	if err != nil || got != 2 {
		t.Errorf("the next run: %d, %v", got, err)
	}
}
