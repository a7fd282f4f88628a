package roadmap

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/patience"
)

// Store gives access to the roadmaps of a repository, which several processes and people with editors change concurrently.
type Store struct {
	Root   string // main checkout
	Disk   *durable.Disk
	Holder durable.Holder // identifies this process to others that wait
}

// lockDir returns the folder, ignored by git, of the locks of a roadmap: one for its file and one for each of its steps.
func (d Store) lockDir(name string) string {
	return filepath.Join(d.Root, ".trellis", ".runtime", "objectives", name)
}

// Claim locks a step for planning, until Unlock. The error is a *durable.HeldError if another process holds it. That a step is
// planned is recorded by the directory that its planning creates; the lock only prevents two from beginning at once.
func (d Store) Claim(name, step string) (*durable.Lock, error) {
	sum := sha256.Sum256([]byte(step))
	path, err := d.lockPath(name, "step-"+hex.EncodeToString(sum[:8])+".lock")
	if err != nil {
		return nil, err
	}
	return durable.TryLock(path, d.Holder)
}

func (d Store) lockPath(name, file string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err := os.MkdirAll(d.lockDir(name), 0o755); err != nil {
		return "", fmt.Errorf("making the folder of locks: %w", err)
	}
	return filepath.Join(d.lockDir(name), file), nil
}

const (
	lockTimeout  = 10 * time.Second      // for other edits of the file, which take milliseconds
	quietTime    = 50 * time.Millisecond // since somebody else wrote a file: an editor may still be writing
	maxEditTries = 20                    // how often a file may change during an edit
)

// Edit changes the file of a roadmap. change gets the content and returns the new one; it is called again if the file has
// changed meanwhile, which people may do at any time: nothing that was there when the file was replaced is lost, as far as
// durable.Replace guarantees it. A file that is being written is first left to rest. If nothing changes, the file is not
// written.
func (d Store) Edit(ctx context.Context, name string, change func(src []byte) ([]byte, error)) error {
	return d.withLock(ctx, name, func(ctx context.Context) error { return d.edit(ctx, name, change) })
}

// withLock calls do while nobody else edits the roadmap or its notes.
func (d Store) withLock(ctx context.Context, name string, do func(context.Context) error) error {
	path, err := d.lockPath(name, "file.lock")
	if err != nil {
		return err
	}
	ctx, stop := patience.New(lockTimeout).Context(ctx)
	defer stop()
	lock, err := durable.WaitLock(ctx, path, d.Holder)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return do(ctx)
}

func (d Store) edit(ctx context.Context, name string, change func(src []byte) ([]byte, error)) error {
	if _, err := Read(d.Root, name); err != nil { // has the best error message
		return err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(d.Root, filepath.FromSlash(File(name)))) // follow a link instead of replacing it
	if err != nil {
		return fmt.Errorf("reading objective %s: %w", name, err)
	}
	for range maxEditTries {
		err = d.replace(ctx, name, path, change)
		if !errors.Is(err, durable.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("editing objective %s: %w", name, err)
}

func (d Store) replace(ctx context.Context, name, path string, change func([]byte) ([]byte, error)) error {
	src, err := d.readWhenQuiet(ctx, name, path)
	if err != nil {
		return err
	}
	now, err := change(src)
	if err != nil || bytes.Equal(now, src) {
		return err
	}
	durable.Sweep(filepath.Dir(path), time.Now()) // temporary files of a killed process
	return d.Disk.Replace(path, src, now)
}

// readWhenQuiet waits until nobody has written a file for a moment, and reads it.
func (d Store) readWhenQuiet(ctx context.Context, name, path string) ([]byte, error) {
	for {
		src, err := Read(d.Root, name)
		if err != nil {
			return nil, err
		}
		st, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("reading the roadmap: %w", err)
		}
		wait := quietTime - time.Since(st.ModTime())
		if wait <= 0 || wait > quietTime { // or its time is in the future
			return src, nil
		}
		if err := patience.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}
