// Package runlock takes the lock of a task's run, which names the process that is at work on the task. Whoever takes it, for a run
// or for a moment, first ends the processes that a dead holder left: agents and commands of git. A run takes the lock by
// journal.Open, with Clear; Take is for short operations.
package runlock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Marker returns the marker that the processes of the task in dir carry in their environment. It is the same for every run, so
// that whoever takes the task over finds them even if the lock file no longer names them.
func Marker(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "task-" + hex.EncodeToString(sum[:])[:24]
}

// dyingWait is how long a killed process may take to release its lock: until its last thread is gone.
const dyingWait = 2 * time.Second

// Take takes the lock of the task in dir, whose run folder must exist, once nothing of a former holder is running. If somebody
// holds the lock, the error is a *durable.HeldError.
func Take(dir string, now time.Time) (lock *durable.Lock, err error) {
	err = Await(func() (err error) {
		lock, err = durable.TakeOver(filepath.Join(dir, "run", "lock"), Holder(dir, now), func(former durable.Holder) error { return EndLeftovers(dir, former) })
		return err
	})
	return lock, err
}

// Await calls take, which takes such a lock, again while a process that was killed still holds it.
func Await(take func() error) error {
	for end := patience.New(dyingWait); ; time.Sleep(2 * time.Millisecond) {
		if err := take(); !isHolderDead(err) || end.Over() {
			return err
		}
	}
}

// isHolderDead reports whether an error means that the holder of a lock is no longer alive.
func isHolderDead(err error) bool {
	var held *durable.HeldError
	return errors.As(err, &held) && held.Holder.Start != "" && held.Holder.BootID == proc.BootID() &&
		!(proc.ID{PID: held.Holder.PID, Start: held.Holder.Start}).Alive()
}

// Busy reports whether an error means that somebody is at work on a task: holds the lock of its run, and not another lock.
func Busy(err error) bool {
	var held *durable.HeldError
	return errors.As(err, &held) && strings.HasSuffix(filepath.ToSlash(held.Path), "/run/lock")
}

// Holder describes this process as the holder of the lock of the task in dir; as that of a lock of another kind if dir is "".
func Holder(dir string, now time.Time) durable.Holder {
	self := proc.Self()
	h := durable.Holder{BootID: proc.BootID(), PID: self.PID, Start: self.Start, Since: now}
	if dir != "" {
		h.Marker = Marker(dir)
		h.Cgroups, _ = proc.CgroupFolder() // without control groups the marks have to do
	}
	h.Host, _ = os.Hostname() // only for messages
	if g, ok := proc.Guarded(); ok {
		h.Guard, h.GuardStart = g.PID, g.Start
	}
	return h
}

// guardWait is how long the guard of a former holder may take to end the holder's processes.
const guardWait = 10 * time.Second

// EndLeftovers waits until the processes that a former holder of the task in dir started are gone, and ends the rest. It also removes the
// temporary files of killed writers.
func EndLeftovers(dir string, former durable.Holder) error {
	for _, folder := range []string{dir, filepath.Join(dir, "run")} {
		durable.Sweep(folder, time.Now())
	}
	if guard := (proc.ID{PID: former.Guard, Start: former.GuardStart}); former.Guard != 0 && former.BootID == proc.BootID() {
		for end := patience.New(guardWait); guard.Alive() && !(proc.ID{PID: former.PID, Start: former.Start}).Alive() && !end.Over(); {
			time.Sleep(10 * time.Millisecond) // there is no event for the end of another process
		}
	}
	left := proc.Sweep(Marker(dir), former.Cgroups)
	if former.Marker != Marker(dir) { // the directory had another name then
		left = append(left, proc.Sweep(former.Marker, former.Cgroups)...)
	}
	if left = append(left, proc.EndOwned(proc.ID{PID: former.PID, Start: former.Start})...); len(left) > 0 {
		return fmt.Errorf("processes %v of an earlier run don't end; end them, then try again", left)
	}
	return nil
}
