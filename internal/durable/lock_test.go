package durable_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// hold takes the lock, prints "held", and keeps the lock until stdin ends.
func hold(args []string) error {
	l, err := durable.TryLock(args[0], durable.Holder{PID: os.Getpid(), Marker: "m1", Claim: 7})
	if err != nil {
		return err
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
	return l.Unlock()
}

// startHolder runs hold in a separate process and returns once that has the lock.
func startHolder(t *testing.T, path string) (cmd *exec.Cmd, release func()) {
	t.Helper()
	cmd = play(t, "hold", path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder said %q, %v", line, err)
	}
	return cmd, func() { stdin.Close(); cmd.Wait() }
}

func TestTryLockNamesTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd, release := startHolder(t, path)
	_, err := durable.TryLock(path, durable.Holder{PID: os.Getpid()})
	var held *durable.HeldError
	if !errors.As(err, &held) || !errors.Is(err, durable.ErrHeld) {
		t.Fatalf("got %v, want a HeldError", err)
	}
	if held.Holder.PID != cmd.Process.Pid || held.Path != path || !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("got %+v (%v), want pid %d", held, err, cmd.Process.Pid)
	}
	if !durable.Held(path) {
		t.Error("Held is false while a process holds it")
	}
	release()
	if durable.Held(path) {
		t.Error("Held is true after the process let go")
	}
	l, err := durable.TryLock(path, durable.Holder{PID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	if got := l.Previous(); got.PID != cmd.Process.Pid || got.Marker != "m1" || got.Claim != 7 {
		t.Errorf("got previous %+v, want the process that held it", got)
	}
	if h, err := durable.ReadHolder(path); err != nil || h.PID != os.Getpid() || h.Marker != "" {
		t.Errorf("got holder %+v, %v, want this process", h, err)
	}
}

func TestKillFreesTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd, _ := startHolder(t, path)
	cmd.Process.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	l, err := durable.WaitLock(ctx, path, durable.Holder{PID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Previous().PID; got != cmd.Process.Pid {
		t.Errorf("got previous pid %d, want %d", got, cmd.Process.Pid)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestLockWithinAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := durable.TryLock(path, durable.Holder{PID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := durable.TryLock(path, durable.Holder{PID: 2}); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("second handle: got %v, want %v", err, durable.ErrHeld)
	}
	if err := errors.Join(l.Unlock(), l.Unlock()); err != nil {
		t.Errorf("unlocking twice: %v", err)
	}
	if l.StillInPlace() {
		t.Error("owned after Unlock")
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("Unlock removed the file: %v", err)
	}
}

func TestLostLockFileIsNoticed(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "lock")
		first, err := durable.TryLock(path, durable.Holder{PID: 1})
		if err != nil {
			t.Fatal(err)
		}
		if !first.StillInPlace() {
			t.Error("a fresh lock is not owned")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if replaced {
			second, err := durable.TryLock(path, durable.Holder{PID: 2})
			if err != nil {
				t.Fatal(err)
			}
			if !second.StillInPlace() || second.Previous().PID != 0 {
				t.Errorf("second lock: owned %v, previous %+v", second.StillInPlace(), second.Previous())
			}
			defer second.Unlock()
		}
		if first.StillInPlace() {
			t.Errorf("owned after its file was removed (replaced: %v)", replaced)
		}
		first.Unlock()
	}
}

// If somebody keeps removing the lock file, TryLock starts over, and neither fails nor hangs.
func TestLockWhileItsFileIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				os.Remove(path)
			}
		}
	})
	for range 300 {
		l, err := durable.TryLock(path, durable.Holder{PID: 1})
		if err != nil {
			t.Errorf("got %v: nobody else locks", err)
			break
		}
		l.Unlock()
	}
	close(stop)
	group.Wait()
}

// Held takes no lock itself: no TryLock fails because Held was called at the same time.
func TestHeldDoesNotDisturb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if durable.Held(path) {
		t.Error("a lock without a file is held")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("Held made the file")
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					durable.Held(path)
				}
			}
		})
	}
	for i := range 300 {
		l, err := durable.TryLock(path, durable.Holder{PID: i + 1})
		if err != nil {
			t.Errorf("try %d: %v", i, err)
			break
		}
		if !durable.Held(path) {
			t.Errorf("try %d: held, but Held is false", i)
		}
		l.Unlock()
	}
	close(stop)
	group.Wait()
}

// count adds one to the number in a file, n times, each under the lock.
func count(args []string) error {
	dir := args[0]
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for range n {
		if err := addOne(dir); err != nil {
			return err
		}
	}
	return nil
}

func addOne(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	l, err := durable.WaitLock(ctx, filepath.Join(dir, "write.lock"), durable.Holder{PID: os.Getpid()})
	if err != nil {
		return err
	}
	defer l.Unlock()
	path := filepath.Join(dir, "number")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	return new(durable.Disk).WriteFile(path, []byte(strconv.Itoa(number+1)), 0o600)
}

func TestManyWritersLoseNoUpdate(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "number"), "0")
	const processes, goroutines, each = 3, 3, 15
	var group sync.WaitGroup
	for range processes {
		group.Go(func() {
			if err := play(t, "count", dir, strconv.Itoa(each)).Run(); err != nil {
				t.Error(err)
			}
		})
	}
	for range goroutines {
		group.Go(func() {
			if err := count([]string{dir, strconv.Itoa(each)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got, want := read(t, filepath.Join(dir, "number")), strconv.Itoa((processes+goroutines)*each); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWaitLockGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := durable.TryLock(path, durable.Holder{PID: 4242})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInjected)
	_, err = durable.WaitLock(ctx, path, durable.Holder{PID: 1})
	if !errors.Is(err, errInjected) || !errors.Is(err, durable.ErrHeld) || !strings.Contains(err.Error(), "4242") {
		t.Errorf("got %v, want the cause and the holder", err)
	}
}

// The content of a lock file does not decide who has the lock: garbage in the file neither holds the lock nor makes it fail.
func TestLockFileContentIsOnlyWords(t *testing.T) {
	for _, content := range []string{"garbage", `{"pid":`, "", strings.Repeat("x", 5000)} {
		path := filepath.Join(t.TempDir(), "lock")
		write(t, path, content)
		l, err := durable.TryLock(path, durable.Holder{PID: 5})
		if err != nil {
			t.Fatalf("%.10q: %v", content, err)
		}
		if got := l.Previous(); got != (durable.Holder{}) {
			t.Errorf("%.10q: got previous %+v", content, got)
		}
		if h, err := durable.ReadHolder(path); err != nil || h.PID != 5 {
			t.Errorf("%.10q: got holder %+v, %v", content, h, err)
		}
		l.Unlock()
	}
}

func TestHolderSurvivesAShorterOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	holders := []durable.Holder{
		{Claim: 1, Host: "a-rather-long-host-name", BootID: "b", PID: 10, Start: "s", Guard: 9, GuardStart: "g", Marker: "m", Since: time.Unix(1e9, 0).UTC()},
		{Claim: 2, PID: 1},
		{},
	}
	var last durable.Holder
	for _, h := range holders {
		l, err := durable.TryLock(path, h)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Previous(); got != last {
			t.Errorf("got previous %+v, want %+v", got, last)
		}
		last = h
		l.Unlock()
	}
}
