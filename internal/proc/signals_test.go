package proc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

func TestSignalContext(t *testing.T) {
	ctx, stop := proc.SignalContext(t.Context())
	defer stop()
	syscall.Kill(os.Getpid(), syscall.SIGTERM)
	<-ctx.Done()
	var e *proc.SignalError
	if err := context.Cause(ctx); !errors.As(err, &e) || e.Signal != syscall.SIGTERM || e.Code() != 143 || e.Error() != "stopped by SIGTERM" {
		t.Errorf("got %v", err)
	}
}

func TestSignalContextStop(t *testing.T) {
	ctx, stop := proc.SignalContext(t.Context())
	stop()
	stop()
	if ctx.Err() == nil {
		t.Error("the context did not end")
	}
	var e *proc.SignalError
	if errors.As(context.Cause(ctx), &e) {
		t.Errorf("got %v without a signal", e)
	}
}

// twoAsks prints "ready", prints "first" when it got the first signal, and then hangs.
func twoAsks([]string) int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("first")
	stay()
	return 0
}

// A signal that is repeated at once counts as one; a person who sends it again a while later ends a process that hangs.
func TestSecondSignalEndsAHang(t *testing.T) {
	for tries := 1; !secondSignal(t); tries++ {
		if tries == 5 { // if the machine stalls, an echo may come late
			t.Fatal("an echo ended the process")
		}
	}
}

// secondSignal reports whether a process survived an echo, a signal repeated at once. It then ends the process by a later signal.
func secondSignal(t *testing.T) bool {
	t.Helper()
	out := newLines()
	c := play("two-asks")
	c.Stdout = out
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	out.pids(t)
	syscall.Kill(p.PID(), syscall.SIGINT)
	if got := out.next(t); got != "first" {
		t.Errorf("got %q", got)
	}
	syscall.Kill(p.PID(), syscall.SIGINT) // an echo
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Wait()
	}()
	select {
	case <-ended:
		return false
	case <-time.After(300 * time.Millisecond):
	}
	eventually(t, "it ended", func() bool {
		syscall.Kill(p.PID(), syscall.SIGINT)
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if r, _ := p.Wait(); r.Code != 130 {
		t.Errorf("got %+v, want code 130", r)
	}
	return true
}

// reloads prints "reload" for each SIGHUP, and "end" when another signal ends it.
func reloads([]string) int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	hangups := proc.ReloadSignals(ctx)
	fmt.Println("ready")
	for {
		select {
		case <-hangups:
			fmt.Println("reload")
		case <-ctx.Done():
			fmt.Println("end")
			return 0
		}
	}
}

// Without a terminal SIGHUP can ask for a reload; the other signals still end the process.
func TestHangups(t *testing.T) {
	out := newLines()
	c := play("reloads") // in a new session, without a terminal
	c.Stdout = out
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	out.pids(t)
	for range 2 {
		syscall.Kill(p.PID(), syscall.SIGHUP)
		if got := out.next(t); got != "reload" {
			t.Fatalf("got %q", got)
		}
	}
	syscall.Kill(p.PID(), syscall.SIGTERM)
	if got := out.next(t); got != "end" {
		t.Errorf("got %q", got)
	}
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	if proc.ReloadSignals(context.Background()) != nil {
		t.Error("a context of others has hangups")
	}
}

// ignoring ignores SIGINT, runs a program that sends SIGINT to itself, and then sends SIGINT and SIGTERM to its
// own process. It prints what differs from the expected.
func ignoring([]string) int {
	signal.Ignore(syscall.SIGINT)
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	r, err := proc.Run(ctx, shell("kill -INT $$"))
	if err != nil || r.Signal != "SIGINT" {
		fmt.Printf("the program did not hear SIGINT: %+v, %v\n", r, err)
	}
	syscall.Kill(os.Getpid(), syscall.SIGINT)
	syscall.Kill(os.Getpid(), syscall.SIGTERM)
	<-ctx.Done()
	var by *proc.SignalError
	if errors.As(context.Cause(ctx), &by); by.Signal != syscall.SIGTERM {
		fmt.Println(by)
	}
	return 0
}

// A watcher that a script puts into the background ignores Ctrl-C; the agents that it runs and stops do not.
func TestProgramsHearWhatIsIgnored(t *testing.T) {
	if r, out := run(t, play("ignoring")); r.Code != 0 || out != "" {
		t.Errorf("got %+v\n%s", r, out)
	}
}
