// Package runlock takes the lock of a task's run, which says who is at work on the task. Whoever takes it, for a run
// or for a moment, first ends what a holder that died left running: agents, and commands of git. What runs a task takes it
// by journal.Open, with Clear; Take here is for short operations.
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

// Marker is what the processes of the task in dir carry in their environment. It is the same for every run of it, so that
// whoever takes the task over finds them even where the lock's file does not tell of them any more.
func Marker(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "task-" + hex.EncodeToString(sum[:])[:24]
}

// dyingWait is how long a process that was killed may take to let go of its lock: until its last thread is gone.
const dyingWait = 2 * time.Second

// Take takes the lock of the task in dir, whose run folder must be there, once nothing of a former holder runs. When somebody
// has it, that is a *durable.HeldError.
func Take(dir string, now time.Time) (lock *durable.Lock, err error) {
	err = Await(func() (err error) {
		lock, err = durable.TakeOver(filepath.Join(dir, "run", "lock"), Holder(dir, now), func(former durable.Holder) error { return Clear(dir, former) })
		return err
	})
	return lock, err
}

// Await does something that takes such a lock, again while a process that was killed still has it.
func Await(take func() error) error {
	for end := patience.New(dyingWait); ; time.Sleep(2 * time.Millisecond) {
		if err := take(); !dying(err) || end.Over() {
			return err
		}
	}
}

// dying reports whether a lock is held by a process that is not alive any more.
func dying(err error) bool {
	var held *durable.HeldError
	return errors.As(err, &held) && held.Holder.Start != "" && held.Holder.BootID == proc.BootID() &&
		!(proc.ID{PID: held.Holder.PID, Start: held.Holder.Start}).Alive()
}

// Busy reports whether an error says that somebody is at work on a task: has the lock of its run, and not another one.
func Busy(err error) bool {
	var held *durable.HeldError
	return errors.As(err, &held) && strings.HasSuffix(filepath.ToSlash(held.Path), "/run/lock")
}

// Holder is this process as the holder of the lock of the task in dir; of a lock of another kind when dir is "".
func Holder(dir string, now time.Time) durable.Holder {
	self := proc.Self()
	h := durable.Holder{BootID: proc.BootID(), PID: self.PID, Start: self.Start, Since: now}
	if dir != "" {
		h.Marker = Marker(dir)
		h.Cgroups, _ = proc.CgroupFolder() // none: their marks have to do
	}
	h.Host, _ = os.Hostname() // only for messages
	if g, ok := proc.Guarded(); ok {
		h.Guard, h.GuardStart = g.PID, g.Start
	}
	return h
}

// guardWait is how long the guard of a former holder may take to end what that holder started.
const guardWait = 10 * time.Second

// Clear waits until what a former holder of the task in dir started is gone, and ends the rest. With it go the temporary files
// of writers that were killed.
func Clear(dir string, former durable.Holder) error {
	for _, folder := range []string{dir, filepath.Join(dir, "run")} {
		durable.Sweep(folder, time.Now())
	}
	if guard := (proc.ID{PID: former.Guard, Start: former.GuardStart}); former.Guard != 0 && former.BootID == proc.BootID() {
		for end := patience.New(guardWait); guard.Alive() && !(proc.ID{PID: former.PID, Start: former.Start}).Alive() && !end.Over(); {
			time.Sleep(10 * time.Millisecond) // another process's end has no event we could wait for
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
