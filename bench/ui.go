package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// uiProcess is a running `trellis ui` on a terminal.
type uiProcess struct {
	cmd *exec.Cmd
	tty *os.File

	mu          sync.Mutex
	output      []byte
	outputReady chan struct{} // there is more output
	outputEnded chan struct{} // closed when the output has ended
}

// startUI starts the UI on a terminal of 80x24.
func (s *site) startUI() (*uiProcess, error) {
	u := &uiProcess{cmd: s.command(s.b.trellis, "ui"), outputReady: make(chan struct{}, 1), outputEnded: make(chan struct{})}
	u.cmd.Env = append(u.cmd.Env, "TERM=xterm-256color")
	var err error
	if u.tty, err = pty.StartWithSize(u.cmd, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		return nil, fmt.Errorf("starting trellis ui: %w", err)
	}
	go u.read()
	return u, nil
}

func (u *uiProcess) read() {
	defer close(u.outputEnded)
	data := make([]byte, 64<<10)
	for {
		n, err := u.tty.Read(data)
		u.mu.Lock()
		u.output = append(u.output, data[:n]...)
		u.mu.Unlock()
		select {
		case u.outputReady <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// waitFor waits until the output since the last key contains want.
func (u *uiProcess) waitFor(want string) error {
	end := time.After(time.Minute)
	for {
		u.mu.Lock()
		seen := bytes.Contains(u.output, []byte(want))
		last := string(u.output[max(0, len(u.output)-2000):])
		u.mu.Unlock()
		if seen {
			return nil
		}
		select {
		case <-u.outputReady:
		case <-u.outputEnded:
			return fmt.Errorf("trellis ui ended before it showed %q: %q", want, last)
		case <-end:
			return fmt.Errorf("trellis ui does not show %q: %q", want, last)
		}
	}
}

// press presses keys, and discards the previous output.
func (u *uiProcess) press(keys string) error {
	u.mu.Lock()
	u.output = nil
	u.mu.Unlock()
	_, err := u.tty.WriteString(keys)
	return err
}

// stop ends the UI by its key.
func (u *uiProcess) stop() error {
	err := u.press("q")
	<-u.outputEnded
	return errors.Join(err, u.cmd.Wait(), u.tty.Close())
}

// ui measures the time until the first screen, the response time to a key, and what an idle UI uses during a time.
func (b *bench) ui(s *site, what string, over time.Duration) error {
	first, key := row{name: "trellis ui, " + what + ": first screen with tasks", unit: "ms", p50: 300}, row{name: "trellis ui, " + what + ": from a key to the screen", unit: "ms", p99: 50}
	for range b.fewSamples {
		began := time.Now()
		u, err := s.startUI()
		if err != nil {
			return err
		}
		err = u.waitFor("> 01-01-other-")
		first.samples = append(first.samples, msSince(began))
		if err = errors.Join(err, u.waitFor("[now]"), u.stop()); err != nil {
			return err
		}
	}
	u, err := s.startUI()
	if err != nil {
		return err
	}
	defer func() { _ = u.cmd.Process.Signal(syscall.SIGTERM) }() // has no effect after u.stop
	if err := u.waitFor("updated"); err != nil {
		return err
	}
	for range b.manySamples {
		began := time.Now()
		if err := errors.Join(u.press("?"), u.waitFor("go to the top")); err != nil {
			return err
		}
		key.samples = append(key.samples, msSince(began))
		began = time.Now()
		if err := errors.Join(u.press("?"), u.waitFor("01-01-other-")); err != nil {
			return err
		}
		key.samples = append(key.samples, msSince(began))
	}
	b.rows = append(b.rows, first, key)
	if err := b.idleUI(u, what, over); err != nil {
		return err
	}
	return u.stop()
}

// readOut is long enough for reading all tasks again after the last key, which is postponed while keys are pressed.
const readOut = 5 * time.Second

func (b *bench) idleUI(u *uiProcess, what string, over time.Duration) error {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		b.logf("left out: trellis ui at rest, which is looked at through /proc")
		return nil
	}
	pids := []int{u.cmd.Process.Pid}
	time.Sleep(readOut)
	before, err := cpu(pids)
	if err != nil {
		return err
	}
	time.Sleep(over)
	after, err := cpu(pids)
	b.rows = append(b.rows, row{name: fmt.Sprintf("trellis ui, %s: CPU at rest over %v", what, over), unit: "%", p50: 0.1, samples: []float64{100 * (after - before).Seconds() / over.Seconds()}})
	return err
}
