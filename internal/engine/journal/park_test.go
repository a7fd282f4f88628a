package journal_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

func await(f flow.Flow, _ string) (string, error) {
	var got string
	_, err := f.Await("s", flow.Forever, &got)
	return got, err
}

// Without an approval the process may exit; a later one continues where it was.
func TestPark(t *testing.T) {
	w := emptyWorld(t, bakeryCode)
	w.letter("1.json", letter{ID: "1", Signal: "agree", Data: approval{"one", "eve"}})
	var before string
	for range 2 {
		_, err := w.execute(t.Context(), w.options())
		var parked *journal.Parked
		if !errors.As(err, &parked) || !slices.Equal(parked.For, []string{"await:agree#2"}) || !parked.Until.IsZero() {
			t.Fatalf("got %v", err)
		}
		if errors.Is(err, flow.ErrSuspended) {
			t.Error("parked is not suspended")
		}
		if text := w.text("run/journal.jsonl"); before != "" && text != before {
			t.Errorf("parking again wrote %q", strings.TrimPrefix(text, before))
		}
		before = w.text("run/journal.jsonl")
	}
	entered := w.count("entries")
	w.letter("2.json", letter{ID: "2", Signal: "agree", Data: approval{"two", "ann"}})
	got, err := w.execute(t.Context(), w.options())
	if err != nil || got.Agreed != "ann" {
		t.Fatalf("got %+v, %v", got, err)
	}
	for id, n := range w.count("entries") {
		if before := entered[id]; before != 0 && n != before {
			t.Errorf("%s was entered again", id)
		}
	}
}

// A Run that parked can be executed again, without being opened again.
func TestParkAndGoOn(t *testing.T) {
	box := newMailbox()
	o := journal.Options{Dir: t.TempDir(), Mailbox: box.messages}
	begin(t, o, "")
	r := open(t, o)
	var parked *journal.Parked
	if _, err := journal.Execute(t.Context(), r, await); !errors.As(err, &parked) {
		t.Fatalf("got %v", err)
	}
	box.put(signal(t, "1", "s", "hello"))
	if got, err := journal.Execute(t.Context(), r, await); err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A message that comes at any read of the mailbox up to the last one before parking is taken.
func TestMessageWhileParking(t *testing.T) {
	for at := 1; ; at++ {
		looks := 0
		o := journal.Options{Dir: t.TempDir(), Mailbox: func() []journal.Message {
			if looks++; looks < at {
				return nil
			}
			return []journal.Message{signal(t, "1", "s", "in time")}
		}}
		begin(t, o, "")
		got, err := execute(t, t.Context(), o, await)
		if looks >= at && (err != nil || got != "in time") {
			t.Errorf("look %d of %d: %q, %v", at, looks, got, err)
		}
		if looks < at {
			if at < 3 {
				t.Errorf("only %d looks: one before the flow starts, one before parking", looks)
			}
			return
		}
	}
}

// The last goroutine begins to wait while the mailbox is being read; a message that comes after that read must not
// be missed.
func TestMessageAfterLook(t *testing.T) {
	var r *journal.Run
	looks, looking := 0, make(chan struct{})
	o := journal.Options{Dir: t.TempDir(), Mailbox: func() []journal.Message {
		switch looks++; looks {
		case 1:
			return nil
		case 2:
			close(looking)
			for len(r.History().Calls) < 2 { // until the await has begun
				runtime.Gosched()
			}
			return nil
		}
		return []journal.Message{signal(t, "1", "s", "in time")}
	}, Activities: []flow.Activity{one.With(func(_ context.Context, _ flow.Call, in string) (string, error) {
		r.Poke()
		<-looking
		return in, nil
	})}}
	begin(t, o, "")
	r = open(t, o)
	got, err := journal.Execute(t.Context(), r, func(f flow.Flow, _ string) (string, error) {
		if _, err := one.Do(f, ""); err != nil {
			return "", err
		}
		return await(f, "")
	})
	if err != nil || got != "in time" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Messages that come in while branches begin to wait are never left untaken: those of the last read are taken.
func TestMessagesWhileParkingRace(t *testing.T) {
	const branches = 8
	for range 20 {
		box := newMailbox()
		o := journal.Options{Dir: t.TempDir(), Mailbox: box.messages, Activities: []flow.Activity{one.With(echo)}}
		begin(t, o, "")
		r := open(t, o)
		var senders sync.WaitGroup
		senders.Go(func() {
			for i := range branches {
				box.put(signal(t, fmt.Sprint(i), "s", "x"))
				r.Poke()
			}
		})
		fn := func(f flow.Flow, _ string) (string, error) {
			var list []flow.Branch
			for i := range branches {
				list = append(list, flow.Branch{Name: fmt.Sprint("b", i), Run: func(f flow.Flow) error {
					if _, err := one.Do(f, ""); err != nil {
						return err
					}
					_, err := await(f, "")
					return err
				}})
			}
			return "all", f.All(0, list...)
		}
		var parked *journal.Parked
		got, err := journal.Execute(t.Context(), r, fn)
		senders.Wait()
		for errors.As(err, &parked) { // only because not all messages had been sent
			if free := slices.ContainsFunc(r.History().Signals, func(s journal.Signal) bool { return !s.Taken }); free {
				t.Fatal("parked with a signal that nobody took")
			}
			got, err = journal.Execute(t.Context(), r, fn)
		}
		if err != nil || got != "all" {
			t.Errorf("got %q, %v", got, err)
		}
		r.Close()
	}
}

// A run parks only if everything in it waits for long.
func TestParkOnlyWhenAllWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(func(_ context.Context, _ flow.Call, in string) (string, error) {
			time.Sleep(10 * time.Minute)
			return in, nil
		})}}
		begin(t, o, "")
		start := time.Now()
		_, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (string, error) {
			return "", f.All(0,
				flow.Branch{Name: "forever", Run: func(f flow.Flow) error { _, err := await(f, ""); return err }},
				flow.Branch{Name: "long", Run: func(f flow.Flow) error { return f.Sleep(5 * time.Hour) }},
				flow.Branch{Name: "short", Run: func(f flow.Flow) error { return f.Sleep(time.Minute) }},
				flow.Branch{Name: "busy", Run: func(f flow.Flow) error {
					if err := f.Sleep(50 * time.Second); err != nil {
						return err
					}
					_, err := one.Do(f, "")
					return err
				}},
			)
		})
		var parked *journal.Parked
		if !errors.As(err, &parked) {
			t.Fatalf("got %v", err)
		}
		if want := []string{"forever/await:s#1", "long/sleep#1"}; !slices.Equal(parked.For, want) || !parked.Until.Equal(start.Add(5*time.Hour)) {
			t.Errorf("got %v until %v, want %v until %v", parked.For, parked.Until, want, start.Add(5*time.Hour))
		}
		if took := time.Since(start); took < 10*time.Minute+50*time.Second || took > 11*time.Minute {
			t.Errorf("parked after %v", took)
		}
	})
}

// While nothing happens the mailbox is read every five seconds, and not more often.
func TestNoPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := newMailbox()
		o := journal.Options{Dir: t.TempDir(), Mailbox: box.messages, ParkAfter: 2 * time.Hour}
		begin(t, o, "")
		start := time.Now()
		ok, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (bool, error) { return f.Await("s", time.Hour, nil) })
		if ok || err != nil || time.Since(start) != time.Hour {
			t.Errorf("got %v, %v after %v, want false after %v", ok, err, time.Since(start), time.Hour)
		}
		if most := int(time.Hour/(5*time.Second)) + 4; box.looks > most || box.looks < most-10 {
			t.Errorf("%d looks, want about %d", box.looks, most)
		}
	})
}

// A message that nobody announces is seen within five seconds, even if it came just before the limit of the wait.
func TestUnannounced(t *testing.T) {
	for _, after := range []time.Duration{7 * time.Second, time.Minute - time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			box := newMailbox()
			o := journal.Options{Dir: t.TempDir(), Mailbox: box.messages}
			begin(t, o, "")
			start := time.Now()
			time.AfterFunc(after, func() { box.put(signal(t, "1", "s", "x")) })
			ok, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (bool, error) { return f.Await("s", time.Minute, nil) })
			if took := time.Since(start); !ok || err != nil || took > after+5*time.Second {
				t.Errorf("got %v, %v after %v", ok, err, took)
			}
		})
	}
}

// A message that suspends the run leaves no record: the run continues when the reason is gone.
func TestSuspendMessage(t *testing.T) {
	stop := errors.New("a person said stop")
	var messages []journal.Message
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(echo)}, Mailbox: func() []journal.Message { return messages }}
	begin(t, o, "")
	fn := func(f flow.Flow, _ string) (string, error) { return one.Do(f, "done") }
	messages = []journal.Message{{Suspend: stop}, {Cancel: true}}
	if _, err := execute(t, t.Context(), o, fn); !errors.Is(err, stop) || !errors.Is(err, flow.ErrSuspended) {
		t.Errorf("got %v, want %v", err, stop)
	}
	if h, _ := journal.Read(o.Dir); h.Cancelled || len(h.Calls) != 0 {
		t.Errorf("history %+v", h)
	}
	messages = nil
	if got, err := execute(t, t.Context(), o, fn); err != nil || got != "done" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A message that can't be recorded is not dropped silently.
func TestBadMessages(t *testing.T) {
	for name, data := range map[string]string{"large": `"` + strings.Repeat("x", flow.MaxPayload) + `"`, "broken": "{"} {
		o := journal.Options{Dir: t.TempDir(), Mailbox: func() []journal.Message {
			return []journal.Message{{ID: "letter 7", Signal: "s", Data: []byte(data)}}
		}}
		begin(t, o, "")
		if _, err := execute(t, t.Context(), o, await); !errors.Is(err, flow.ErrSuspended) || !strings.Contains(err.Error(), "letter 7") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The end of ctx is not recorded as an outcome, whenever it comes.
func TestInterrupt(t *testing.T) {
	sigint := errors.New("interrupt")
	ctx, stop := context.WithCancelCause(t.Context())
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(func(ctx context.Context, c flow.Call, in string) (string, error) {
		if c.Attempt == 1 {
			stop(sigint)
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		return in, nil
	})}}
	begin(t, o, "")
	fn := func(f flow.Flow, _ string) (string, error) { return one.Do(f, "done") }
	for range 2 { // while it works, and before it begins
		if _, err := execute(t, ctx, o, fn); !errors.Is(err, sigint) || !errors.Is(err, flow.ErrSuspended) {
			t.Errorf("got %v, want %v", err, sigint)
		}
	}
	if h, err := journal.Read(o.Dir); err != nil || h.Ended || len(h.Calls) != 1 || h.Calls[0].Done || h.Calls[0].Entries != 1 {
		t.Errorf("history %+v, %v", h, err)
	}
	if got, err := execute(t, t.Context(), o, fn); err != nil || got != "done" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := execute(t, ctx, o, fn); err != nil || got != "done" {
		t.Errorf("a run that has ended answers: %q, %v", got, err)
	}
}

// A call that a cancellation keeps from starting leaves no record.
func TestNothingStartsAfterCancel(t *testing.T) {
	box := newMailbox()
	o := journal.Options{Dir: t.TempDir(), Mailbox: box.messages, Activities: []flow.Activity{one.With(echo), two.With(echo)}}
	begin(t, o, "")
	box.put(journal.Message{Cancel: true})
	_, err := execute(t, t.Context(), o, func(f flow.Flow, _ string) (string, error) {
		_, awaitErr := await(f, "")
		for _, err := range []error{f.Do("one", "", nil), f.Sleep(0), awaitErr} {
			if err != flow.ErrCancelled {
				t.Errorf("got %v, want %v", err, flow.ErrCancelled)
			}
		}
		return two.Do(f.Shield(), "")
	})
	if h := readHistory(t, o.Dir); err != nil || len(h.Calls) != 1 || h.Calls[0].ID != "two#1" || !h.Cancelled || h.End != nil {
		t.Errorf("got %+v, %v", h, err)
	}
}

// Flow code that itself returns flow.ErrSuspended has not ended.
func TestFlowSuspends(t *testing.T) {
	o := journal.Options{Dir: t.TempDir()}
	begin(t, o, "")
	for range 2 {
		_, err := execute(t, t.Context(), o, func(flow.Flow, string) (string, error) { return "", flow.ErrSuspended })
		if h, _ := journal.Read(o.Dir); !errors.Is(err, flow.ErrSuspended) || h.Ended {
			t.Errorf("got %v, ended: %v", err, h.Ended)
		}
	}
}

// An activity may report that the run has to be suspended.
func TestActivitySuspends(t *testing.T) {
	gone := errors.New("the task directory is gone")
	o := journal.Options{Dir: t.TempDir(), Activities: []flow.Activity{one.With(func(_ context.Context, c flow.Call, in string) (string, error) {
		if c.Attempt == 1 {
			return "", fmt.Errorf("%w: %w", flow.ErrSuspended, gone)
		}
		return in, nil
	})}}
	begin(t, o, "")
	fn := func(f flow.Flow, _ string) (string, error) { return one.Do(f, "back") }
	if _, err := execute(t, t.Context(), o, fn); !errors.Is(err, gone) || !errors.Is(err, flow.ErrSuspended) {
		t.Errorf("got %v", err)
	}
	if got, err := execute(t, t.Context(), o, fn); err != nil || got != "back" {
		t.Errorf("got %q, %v", got, err)
	}
}
