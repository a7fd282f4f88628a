package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/patience"
)

// maxHolder is the maximum size of a lock file.
const maxHolder = 64 << 10

// ErrHeld matches a *HeldError with errors.Is.
var ErrHeld = errors.New("held by another process")

// Holder is the content of a lock file: who took the lock last. It is for messages, and for finding processes that a dead holder
// left running; only the kernel decides who owns the lock.
type Holder struct {
	Claim      int       `json:"claim,omitempty"`
	Host       string    `json:"host,omitempty"`
	BootID     string    `json:"boot_id,omitempty"`
	PID        int       `json:"pid"`
	Start      string    `json:"start,omitempty"` // start time of the process, which tells it from a later one with its pid
	Guard      int       `json:"guard,omitempty"` // pid of the guard
	GuardStart string    `json:"guard_start,omitempty"`
	Marker     string    `json:"marker,omitempty"`  // marks the processes that it started
	Cgroups    string    `json:"cgroups,omitempty"` // folder with the control groups of these processes
	For        string    `json:"for,omitempty"`     // the task for which it is held
	Since      time.Time `json:"since,omitzero"`
}

// HeldError means that a lock is held by somebody else.
type HeldError struct {
	Path   string
	Holder Holder // zero if the file does not tell
}

func (e *HeldError) Error() string { return e.Path + " is held by " + e.By() }

// By describes the holder.
func (e *HeldError) By() string {
	if e.Holder.PID == 0 {
		return "another process"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "process %d", e.Holder.PID)
	if e.Holder.Host != "" {
		fmt.Fprintf(&b, " on %s", e.Holder.Host)
	}
	if !e.Holder.Since.IsZero() {
		fmt.Fprintf(&b, " since %s", e.Holder.Since.Format(time.RFC3339))
	}
	return b.String()
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Lock is a lock that this process holds. Its methods are safe for concurrent use.
type Lock struct {
	path     string
	previous Holder

	mu sync.Mutex
	f  *os.File // nil after Unlock
}

// TryLock takes the lock whose file is path, without waiting, and creates the file if it doesn't exist; its folder must exist. h
// is written into the file for others to read. If the lock is taken, also by another handle of this process, the error is a
// *HeldError. Children of the process do not inherit the lock.
func TryLock(path string, h Holder) (*Lock, error) {
	return tryLock(path, func(Holder) Holder { return h })
}

// TakeOver is TryLock for a lock whose holders start processes that may outlive them. It calls clear with the former holder, to
// end processes that it left; if clear fails, TakeOver returns its error and does not take the lock.
//
// Guard, marker and control groups of the former holder stay in the file until clear has succeeded. If they were overwritten at
// once, nobody could find those processes after a failed clear or a crash.
func TakeOver(path string, h Holder, clear func(former Holder) error) (*Lock, error) {
	l, err := tryLock(path, func(former Holder) Holder {
		first := h
		if former.Guard != 0 || former.Marker != "" {
			first.Guard, first.GuardStart, first.Marker, first.Cgroups = former.Guard, former.GuardStart, former.Marker, former.Cgroups
		}
		return first
	})
	if err != nil {
		return nil, err
	}
	holder := h
	clearErr := clear(l.previous)
	if clearErr != nil {
		holder = l.previous
	}
	if err := errors.Join(clearErr, l.recordHolder(holder)); err != nil {
		return nil, errors.Join(err, l.Unlock())
	}
	return l, nil
}

// recordHolder writes h into the file of a held lock.
func (l *Lock) recordHolder(h Holder) error {
	st, err := l.f.Stat()
	if err == nil {
		err = writeHolder(l.f, h, int(st.Size()))
	}
	if err != nil {
		return fmt.Errorf("writing lock %s: %w", l.path, err)
	}
	return nil
}

// tryLock takes the lock, calls newHolder with the former holder, and writes the result into the file.
func tryLock(path string, newHolder func(former Holder) Holder) (*Lock, error) {
	for {
		f, err := OpenOwn(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening lock: %w", err)
		}
		if err := lockOrProbe(f); err != nil {
			f.Close()
			return nil, lockError(path, err)
		}
		if sameFile(f, path) { // else it was removed between open and flock
			return newLock(f, path, newHolder)
		}
		f.Close()
	}
}

// lockOrProbe takes the exclusive lock. It tries again if it only meets a probe of Held, which holds the lock shared for an
// instant.
func lockOrProbe(f *os.File) error {
	const tries = 200
	var err error
	for range tries {
		if err = Flock(f, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if Flock(f, unix.LOCK_SH|unix.LOCK_NB) != nil {
			return err
		}
		if unlockErr := Flock(f, unix.LOCK_UN); unlockErr != nil {
			return unlockErr
		}
		time.Sleep(100 * time.Microsecond)
	}
	return err
}

func lockError(path string, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	h, _ := ReadHolder(path) // an unreadable file only makes the message less precise
	return &HeldError{path, h}
}

func newLock(f *os.File, path string, newHolder func(former Holder) Holder) (*Lock, error) {
	old, err := readAll(f, maxHolder)
	if errors.Is(err, ErrTooLarge) { // no holder wrote so much
		old, err = nil, f.Truncate(0)
	}
	l := &Lock{path: path, f: f}
	if err == nil {
		l.previous, _ = parseHolder(old) // what can't be read is not worth keeping
		err = writeHolder(f, newHolder(l.previous), len(old))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("writing lock %s: %w", path, err)
	}
	return l, nil
}

// writeHolder overwrites the file in one call, padded to its previous length, so that a kill never leaves it empty.
func writeHolder(f *os.File, h Holder, length int) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if pad := length - len(data) - 1; pad > 0 {
		data = append(data, bytes.Repeat([]byte(" "), pad)...)
	}
	_, err = f.WriteAt(append(data, '\n'), 0)
	return err
}

// lockPause is the pause between two attempts to take a lock that somebody holds.
const lockPause = 3 * time.Millisecond

// WaitLock is TryLock, except that it waits for the lock until ctx ends. It tries every few milliseconds and is for locks that are
// held about as long. When ctx ends, the error matches both ErrHeld and the cause.
func WaitLock(ctx context.Context, path string, h Holder) (*Lock, error) {
	for {
		l, err := TryLock(path, h)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		if cause := patience.Sleep(ctx, lockPause); cause != nil {
			return nil, fmt.Errorf("waiting for a lock: %w: %w", err, cause)
		}
	}
}

// WaitLockFor is WaitLock with a time limit. When that is over, the error matches ErrHeld and names the holder.
func WaitLockFor(path string, h Holder, wait time.Duration) (*Lock, error) {
	for end := patience.New(wait); ; time.Sleep(lockPause) {
		l, err := TryLock(path, h)
		if held, ok := errors.AsType[*HeldError](err); ok && end.Over() {
			return nil, fmt.Errorf("%w, and was waited for %v", held, wait)
		} else if !ok {
			return l, err
		}
	}
}

// StillInPlace reports whether the lock file is still the one that everyone else finds at its path. It is not if the file was removed or
// replaced, by git clean for example: then another process can take a lock there.
func (l *Lock) StillInPlace() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f != nil && sameFile(l.f, l.path)
}

// Previous returns the former content of the lock file: the holder before this one, which is gone, while processes that it started
// may have survived. It is zero if there was none.
func (l *Lock) Previous() Holder { return l.previous }

// Unlock frees the lock. Its file stays, since removing it would let two processes lock two files of one name. Further calls have
// no effect.
func (l *Lock) Unlock() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	// Unlocked explicitly: a child between fork and exec shares the handle, so that closing it would not free the lock.
	err := errors.Join(Flock(l.f, unix.LOCK_UN), l.f.Close())
	l.f = nil
	if err != nil {
		return fmt.Errorf("unlocking %s: %w", l.path, err)
	}
	return nil
}

// ReadHolder returns who took the lock at path last. Held tells whether it is held now.
func ReadHolder(path string) (Holder, error) {
	data, err := Read(path, maxHolder)
	if err != nil {
		return Holder{}, fmt.Errorf("reading lock: %w", err)
	}
	h, err := parseHolder(data)
	if err != nil {
		return Holder{}, fmt.Errorf("reading lock %s: %w", path, err)
	}
	return h, nil
}

func parseHolder(data []byte) (h Holder, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return Holder{}, nil
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return Holder{}, err
	}
	return h, nil
}

// Held reports whether somebody, possibly this process, holds the lock at path. It never creates the file, and does not interfere
// with TryLock. A lock that can't be checked counts as held; if path is not a file that TryLock could lock, nobody holds it.
func Held(path string) bool {
	f, err := OpenOwn(path, os.O_RDONLY, 0)
	if err != nil {
		return !slices.ContainsFunc(notLockable, func(why error) bool { return errors.Is(err, why) })
	}
	defer f.Close()
	if err := Flock(f, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return true
	}
	return Flock(f, unix.LOCK_UN) != nil
}

var notLockable = []error{fs.ErrNotExist, ErrLink, ErrIrregular, unix.EISDIR, unix.ENOTDIR}

// Flock is flock(2), repeated if a signal interrupts it.
func Flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}
