package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// faulty is main with a disk and a clock that a test disturbs (package faults), as its environment says:
//
//	FAULTS_ROOT   folder to which the paths of steps are relative
//	FAULTS_LOG    file to which each step on the disk is written before it is done
//	FAULTS_AT     the step at which something happens, with the number of its repetition: "sync a/b 2"
//	FAULTS_DO     what happens: "worker", "guard" or "both" are killed; with "ENOSPC" or "EIO" the step fails
//	FAULTS_LATER  how long after that step the kill happens
//	FAULTS_STAY   not empty: all later steps of this process fail too
//	FAULTS_CLOCK  file with the seconds by which the clock is ahead
func faulty() {
	f := &faults{seen: map[string]int{}}
	os.Exit(run(&console{Console: command.Console{Now: shifted(os.Getenv("FAULTS_CLOCK")), Disk: &durable.Disk{Fault: f.ask}}}))
}

// randomIDs matches random names of clones and runs, so that a step in such a folder has the same name in each world.
var randomIDs = regexp.MustCompile(`\b([0-9a-f]{32}|\d{6}-\d{6}-[a-z2-7]{4})\b`)

// faults are the faults of a disk.
type faults struct {
	mu   sync.Mutex
	seen map[string]int
	stay error
}

func (f *faults) ask(step, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if rel, err := filepath.Rel(os.Getenv("FAULTS_ROOT"), path); err == nil {
		path = randomIDs.ReplaceAllString(rel, "ID")
	}
	line := step + " " + path
	f.seen[line]++
	if err := note(os.Getenv("FAULTS_LOG"), line); err != nil {
		return err
	}
	if f.stay != nil {
		return f.stay
	}
	if os.Getenv("FAULTS_AT") != fmt.Sprint(line, " ", f.seen[line]) {
		return nil
	}
	return f.happen(os.Getenv("FAULTS_DO"), &fs.PathError{Op: step, Path: path})
}

// happen does what FAULTS_DO says. If the step fails, it returns failed with its cause.
func (f *faults) happen(what string, failed *fs.PathError) (err error) {
	if cause, ok := map[string]error{"ENOSPC": syscall.ENOSPC, "EIO": syscall.EIO}[what]; ok {
		failed.Err = cause
		err = failed
	} else {
		later, _ := time.ParseDuration(os.Getenv("FAULTS_LATER")) // "": at once
		if later > 0 {
			time.AfterFunc(later, func() { end(what) })
		} else {
			end(what)
		}
	}
	if os.Getenv("FAULTS_STAY") != "" {
		f.stay = err
	}
	return err
}

// end kills this process, the guard that is its parent, or both. Without the guard the kernel kills this process too, shortly after.
func end(who string) {
	if who != "worker" {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	}
	if who != "guard" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func note(log, line string) error {
	if log == "" {
		return nil
	}
	w, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = fmt.Fprintln(w, line)
	return err
}

// shifted returns a clock that a file can set ahead or back at any time.
func shifted(file string) func() time.Time {
	return func() time.Time {
		data, _ := os.ReadFile(file) // no file: the right time
		ahead, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		return time.Now().Add(time.Duration(ahead) * time.Second)
	}
}
