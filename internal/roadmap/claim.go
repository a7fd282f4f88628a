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

// Store is where the roadmaps of a repository are worked on, by several processes and by people with editors.
type Store struct {
	Root   string // main checkout
	Disk   *durable.Disk
	Holder durable.Holder // who we are, for others that wait
}

// locks are kept where git sees nothing, one for each roadmap's file and one for each of its steps.
func (d Store) locks(name string) string {
	return filepath.Join(d.Root, ".trellis", ".runtime", "objectives", name)
}

// Claim takes a step for planning, until Unlock. *durable.HeldError: another process plans it. That it is planned
// stands in the directory that its planning begins with; the lock only keeps two from beginning at once.
func (d Store) Claim(name, step string) (*durable.Lock, error) {
	sum := sha256.Sum256([]byte(step))
	path, err := d.lock(name, "step-"+hex.EncodeToString(sum[:8])+".lock")
	if err != nil {
		return nil, err
	}
	return durable.TryLock(path, d.Holder)
}

func (d Store) lock(name, file string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err := os.MkdirAll(d.locks(name), 0o755); err != nil {
		return "", fmt.Errorf("making the folder of locks: %w", err)
	}
	return filepath.Join(d.locks(name), file), nil
}

const (
	editWait = 10 * time.Second      // for others that edit the same file, which need milliseconds
	atRest   = 50 * time.Millisecond // since a file was written by somebody else: an editor may be at it
	again    = 20                    // times that a file may change under an edit
)

// Edit changes the file of a roadmap. change is given what is in it and says what is to be; it is called again when the
// file has changed meanwhile, which people may do at any time: nothing that was there when the file was replaced is
// lost, as far as durable.Replace goes; and a file that is just being written is left to rest first. One that needs no
// change is not written.
func (d Store) Edit(ctx context.Context, name string, change func(src []byte) ([]byte, error)) error {
	return d.alone(ctx, name, func(ctx context.Context) error { return d.edit(ctx, name, change) })
}

// alone does something while nobody else edits the roadmap or notes what is in it.
func (d Store) alone(ctx context.Context, name string, do func(context.Context) error) error {
	path, err := d.lock(name, "file.lock")
	if err != nil {
		return err
	}
	ctx, stop := patience.New(editWait).Context(ctx)
	defer stop()
	lock, err := durable.WaitLock(ctx, path, d.Holder)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return do(ctx)
}

func (d Store) edit(ctx context.Context, name string, change func(src []byte) ([]byte, error)) error {
	if _, err := Read(d.Root, name); err != nil { // which says best what is wrong
		return err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(d.Root, filepath.FromSlash(File(name)))) // a link is followed, not replaced
	if err != nil {
		return fmt.Errorf("reading objective %s: %w", name, err)
	}
	for range again {
		err = d.replace(ctx, name, path, change)
		if !errors.Is(err, durable.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("editing objective %s: %w", name, err)
}

func (d Store) replace(ctx context.Context, name, path string, change func([]byte) ([]byte, error)) error {
	src, err := d.calm(ctx, name, path)
	if err != nil {
		return err
	}
	now, err := change(src)
	if err != nil || bytes.Equal(now, src) {
		return err
	}
	durable.Sweep(filepath.Dir(path), time.Now()) // what a process that was killed here left
	return d.Disk.Replace(path, src, now)
}

// calm reads a file that nobody has written for a moment.
func (d Store) calm(ctx context.Context, name, path string) ([]byte, error) {
	for {
		src, err := Read(d.Root, name)
		if err != nil {
			return nil, err
		}
		st, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("reading the roadmap: %w", err)
		}
		wait := atRest - time.Since(st.ModTime())
		if wait <= 0 || wait > atRest { // or it was written in the future
			return src, nil
		}
		if err := patience.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}
