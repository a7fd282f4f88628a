package passes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pipeline/passes"
)

func store(t *testing.T, now *time.Time) passes.Store {
	t.Helper()
	return passes.Store{Folder: filepath.Join(t.TempDir(), "baseline"), Disk: &durable.Disk{}, Now: func() time.Time { return *now }}
}

func subject() passes.Subject {
	return passes.Subject{Tree: "4b825dc642cb6eb9a060e54bf8d69288fbee4904", Command: "make test", Environment: map[string]string{"program make": "aa"}}
}

// A pass counts for the same files, command and environment, and for a day.
func TestFind(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	if p, err := s.Find(subject()); p != nil || err != nil {
		t.Fatalf("in no folder there is %v, %v", p, err)
	}
	if err := s.Keep(subject(), passes.Pass{Task: "02-01-bye", Seconds: 12.5}); err != nil {
		t.Fatal(err)
	}
	p, err := s.Find(subject())
	if err != nil || p == nil || p.Task != "02-01-bye" || p.Seconds != 12.5 || !p.At.Equal(now) {
		t.Fatalf("got %+v, %v", p, err)
	}
	for name, change := range map[string]func(*passes.Subject){
		"other files":     func(of *passes.Subject) { of.Tree = "a" },
		"another command": func(of *passes.Subject) { of.Command += " -v" },
		"another program": func(of *passes.Subject) { of.Environment = map[string]string{"program make": "bb"} },
		"something more": func(of *passes.Subject) {
			of.Environment = map[string]string{"program make": "aa", "network verify": "none"}
		},
		"nothing is known of it": func(of *passes.Subject) { of.Environment = nil },
	} {
		of := subject()
		change(&of)
		if p, err := s.Find(of); p != nil || err != nil {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{{passes.Age, true}, {passes.Age + time.Second, false}, {-time.Minute, false}} {
		then := s
		then.Now = func() time.Time { return now.Add(test.after) }
		if p, err := then.Find(subject()); (p != nil) != test.want || err != nil {
			t.Errorf("after %v: got %+v, %v", test.after, p, err)
		}
	}
}

// A record that is damaged or belongs to other files does not count as a pass.
func TestSpoiltFile(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	if err := s.Keep(subject(), passes.Pass{Task: "02-01-bye"}); err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(filepath.Join(s.Folder, "*.json"))
	if err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	for _, spoiling := range []struct {
		name  string
		spoil func() error
	}{
		{"nonsense", func() error { return os.WriteFile(list[0], []byte("{"), 0o644) }},
		{"of other files", func() error {
			return os.WriteFile(list[0], []byte(`{"tree": "b", "command": "make test", "at": "`+now.Format(time.RFC3339Nano)+`"}`), 0o644)
		}},
		{"a folder", func() error { return errors.Join(os.Remove(list[0]), os.Mkdir(list[0], 0o755)) }},
	} {
		if err := spoiling.spoil(); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Find(subject()); p != nil || err != nil {
			t.Errorf("%s: got %+v, %v", spoiling.name, p, err)
		}
	}
}

// Keep removes passes that no longer count.
func TestForget(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	if err := s.Keep(subject(), passes.Pass{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(passes.Age + time.Hour)
	other := subject()
	other.Command = "make lint"
	if err := s.Keep(other, passes.Pass{}); err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(filepath.Join(s.Folder, "*.json"))
	if err != nil || len(list) != 1 {
		t.Errorf("got %v, %v", list, err)
	}
}

func ask(task string, known func() (bool, error), find func() error) passes.Question {
	return passes.Question{Of: []passes.Subject{subject()}, Task: task, Known: known, Find: find, Limit: time.Hour, Waits: func(string) error { return nil }}
}

func never() (bool, error) { return false, nil }

// If several callers ask the same question at once, the first one finds the answer. If it fails to, the others run in parallel.
func TestAsk(t *testing.T) {
	for name, passed := range map[string]bool{"passes": true, "fails": false} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			s := store(t, &now)
			const many = 5
			var (
				all   sync.WaitGroup
				runs  atomic.Int32
				first = make(chan struct{}) // closed when the first caller runs Find
				asked = make(chan struct{}, 2*many)
			)
			known := func() (bool, error) {
				p, err := s.Find(subject())
				asked <- struct{}{}
				return p != nil, err
			}
			work := func(lead bool) error {
				return s.Ask(t.Context(), ask("first", known, func() error {
					runs.Add(1)
					if !lead {
						return nil
					}
					close(first)
					for range many + 1 {
						<-asked // Known found no pass yet: once in each other caller, twice in this one
					}
					if passed {
						return s.Keep(subject(), passes.Pass{Task: "first"})
					}
					return nil
				}))
			}
			all.Add(1)
			go func() {
				defer all.Done()
				if err := work(true); err != nil {
					t.Error(err)
				}
			}()
			<-first
			for range many - 1 {
				all.Go(func() {
					if err := work(false); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			want := int32(1)
			if !passed {
				want = many
			}
			if got := runs.Load(); got != want {
				t.Errorf("it was found out %d times, want %d", got, want)
			}
		})
	}
}

// Ask stops waiting for another task when its context is cancelled.
func TestAskEndsWithItsContext(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	err := s.Ask(t.Context(), ask("first", never, func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return s.Ask(ctx, ask("second", never, func() error { return errors.New("it runs beside the other one") }))
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A caller that has to wait is told once which task it waits for, and waits no longer than its Limit.
func TestAskTellsWhomItWaitsFor(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	var told []string
	ran := false
	err := s.Ask(t.Context(), ask("first", never, func() error {
		second := ask("second", never, func() error { ran = true; return nil })
		second.Limit = time.Millisecond
		second.Waits = func(task string) error { told = append(told, task); return nil }
		return s.Ask(t.Context(), second)
	}))
	if err != nil || !ran || !slices.Equal(told, []string{"first"}) {
		t.Errorf("ran: %v, told %q, %v", ran, told, err)
	}
}

// A caller without a Limit waits until the other task is done.
func TestAskWaitsWithoutALimit(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	known := func() (bool, error) {
		p, err := s.Find(subject())
		return p != nil, err
	}
	waits, ended := make(chan struct{}), make(chan error, 1)
	err := s.Ask(t.Context(), ask("first", known, func() error {
		second := ask("second", known, func() error { return errors.New("it runs beside the other one") })
		second.Limit = 0
		second.Waits = func(string) error { close(waits); return nil }
		go func() { ended <- s.Ask(t.Context(), second) }()
		<-waits
		return s.Keep(subject(), passes.Pass{Task: "first"})
	}))
	if err := errors.Join(err, <-ended); err != nil {
		t.Error(err)
	}
}

// Ask does not wait for a task with another question: another command, environment or tree.
func TestAskOtherThings(t *testing.T) {
	for name, other := range map[string]func(*passes.Subject){
		"command":     func(s *passes.Subject) { s.Command += " -v" },
		"environment": func(s *passes.Subject) { s.Environment = map[string]string{"program go": "other"} },
		"tree":        func(s *passes.Subject) { s.Tree = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			s := store(t, &now)
			ran := false
			err := s.Ask(t.Context(), ask("first", never, func() error {
				second := ask("second", never, func() error { ran = true; return nil })
				other(&second.Of[0])
				second.Waits = func(string) error { return errors.New("it waits") }
				return s.Ask(t.Context(), second)
			}))
			if err != nil || !ran {
				t.Errorf("ran: %v, %v", ran, err)
			}
		})
	}
}

// SecondsOf adds up the seconds of the last pass of each command, on any files, and returns 0 if a command has no pass.
func TestTook(t *testing.T) {
	now := time.Now()
	s := store(t, &now)
	took := func(want float64, commands ...string) {
		t.Helper()
		if got, err := s.SecondsOf(commands); got != want || err != nil {
			t.Errorf("%q took %v, want %v; %v", commands, got, want, err)
		}
	}
	took(0, "make test")
	for i, seconds := range []float64{5, 12.5} {
		of := subject()
		of.Tree = fmt.Sprint(of.Tree, i)
		now = now.Add(time.Minute)
		if err := s.Keep(of, passes.Pass{Seconds: seconds}); err != nil {
			t.Fatal(err)
		}
	}
	took(12.5, "make test")
	took(0, "make test", "make lint")
	took(25, "make test", "make test")
	now = now.Add(passes.Age)
	took(12.5, "make test")
	now = now.Add(time.Second)
	took(0, "make test")
}
