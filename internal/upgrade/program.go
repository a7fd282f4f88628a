package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// ErrNoPrevious means that nothing was replaced yet.
var ErrNoPrevious = errors.New("there is no program from before the last upgrade")

// Program is the file of this program. Whatever happens to an upgrade or a rollback, such as being killed or running out of
// space, there is always a complete program at Path: the old or the new one.
type Program struct {
	Path string // not a symbolic link
	Disk *durable.Disk
	Env  []string // environment for trying programs
}

// withLock calls change, which changes the program, while no other process does.
func (p *Program) withLock(change func() error) error {
	lock, err := durable.TryLock(p.siblingPath("lock"), durable.Holder{PID: os.Getpid(), Since: time.Now()})
	if err != nil {
		return fmt.Errorf("changing %s: %w", p.Path, err)
	}
	err = change()
	return errors.Join(err, os.Remove(p.siblingPath("lock")), lock.Unlock())
}

// previousPath is the path of the program from before the last upgrade, and nextPath that of the program about to be installed.
func (p *Program) previousPath() string { return p.siblingPath("previous") }
func (p *Program) nextPath() string     { return p.siblingPath("next") }

func (p *Program) siblingPath(what string) string {
	return filepath.Join(filepath.Dir(p.Path), "."+filepath.Base(p.Path)+"-"+what)
}

// Replace installs a release once its program has been started successfully, and keeps the current program as the previous one.
func (p *Program) Replace(ctx context.Context, a *Archive) error {
	return p.withLock(func() error { return p.replace(ctx, a) })
}

func (p *Program) replace(ctx context.Context, a *Archive) error {
	old, perm, err := p.readProgram(p.Path)
	if err != nil {
		return err
	}
	if err := p.stage(ctx, a.Program, perm); err != nil {
		return err
	}
	if err = p.Disk.WriteFile(p.previousPath(), old, perm); err == nil {
		err = os.Chmod(p.previousPath(), perm)
	}
	if err == nil {
		err = p.move(p.nextPath(), p.Path)
	}
	if err != nil {
		return p.discardNext(err)
	}
	return p.replacePages(a.Pages)
}

// Rollback restores the previous program. The replaced program becomes the previous one, so a second rollback undoes the first.
func (p *Program) Rollback(ctx context.Context) error {
	return p.withLock(func() error { return p.rollback(ctx) })
}

func (p *Program) rollback(ctx context.Context) error {
	current, perm, err := p.readProgram(p.Path)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(p.previousPath()); errors.Is(err, fs.ErrNotExist) {
		return ErrNoPrevious
	}
	if p.rollbackInterrupted() {
		return p.move(p.nextPath(), p.previousPath())
	}
	if err := p.try(ctx, p.previousPath()); err != nil {
		return err
	}
	if err := p.stage(ctx, current, perm); err != nil {
		return err
	}
	if err := p.hardLink(p.previousPath(), p.Path); err != nil {
		return p.discardNext(err)
	}
	return p.move(p.nextPath(), p.previousPath())
}

// rollbackInterrupted reports whether a rollback was interrupted, e.g. killed, between its two renames: one file has both names,
// and the program that is to become the previous one exists at nextPath.
func (p *Program) rollbackInterrupted() bool {
	here, err := os.Lstat(p.Path)
	previous, previousErr := os.Lstat(p.previousPath())
	_, nextErr := os.Lstat(p.nextPath())
	return err == nil && previousErr == nil && nextErr == nil && os.SameFile(here, previous)
}

// hardLink hard-links the program from to the name to, replacing any file there.
func (p *Program) hardLink(from, to string) error {
	link := p.siblingPath("link")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a killed process
		return fmt.Errorf("removing %s: %w", link, err)
	}
	if err := os.Link(from, link); err != nil {
		return fmt.Errorf("linking %s: %w", from, err)
	}
	if err := p.move(link, to); err != nil {
		return errors.Join(err, os.Remove(link))
	}
	return nil
}

// stage writes a program to nextPath, and tries it.
func (p *Program) stage(ctx context.Context, data []byte, perm fs.FileMode) error {
	if err := p.Disk.WriteFile(p.nextPath(), data, perm); err != nil {
		return err
	}
	if err := os.Chmod(p.nextPath(), perm); err != nil { // regardless of the umask
		return p.discardNext(err)
	}
	if err := p.try(ctx, p.nextPath()); err != nil {
		return p.discardNext(err)
	}
	return nil
}

// try starts a program to print its version.
func (p *Program) try(ctx context.Context, path string) error {
	said := proc.NewCapped(4 << 10)
	exit, err := proc.Run(ctx, proc.Command{Argv: []string{path, "--version"}, Env: p.Env, Dir: filepath.Dir(path), Stdout: said, Stderr: said, Wall: 20 * time.Second, Grace: time.Second})
	if err == nil && (exit.Code != 0 || !strings.HasPrefix(said.String(), "trellis ")) {
		err = fmt.Errorf("it exited with %d and said %q", exit.Code, strings.TrimSpace(said.String()))
	}
	if err != nil {
		return fmt.Errorf("trying %s, which does not run on this machine: %w", path, err)
	}
	return nil
}

// move renames the program from to to, replacing any file there.
func (p *Program) move(from, to string) error {
	if err := p.Disk.Step("rename", to); err != nil {
		return fmt.Errorf("renaming %s to %s: %w", from, to, err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("renaming %s to %s: %w", from, to, err)
	}
	return p.Disk.SyncDir(filepath.Dir(to))
}

// discardNext removes the program at nextPath after an error, and returns the error.
func (p *Program) discardNext(err error) error {
	if gone := os.Remove(p.nextPath()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		return errors.Join(err, gone)
	}
	return err
}

func (p *Program) readProgram(path string) ([]byte, fs.FileMode, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the program: %w", err)
	}
	data, err := durable.ReadOwn(path, maxProgram)
	return data, info.Mode().Perm(), err
}

// replacePages replaces the manual if install.sh installed it with this program: in share/man beside the program's folder.
func (p *Program) replacePages(pages map[string][]byte) error {
	folder := filepath.Join(filepath.Dir(filepath.Dir(p.Path)), "share", "man", "man1")
	if _, err := os.Lstat(filepath.Join(folder, "trellis.1")); err != nil {
		return nil
	}
	for name, page := range pages {
		if err := p.Disk.WriteFile(filepath.Join(folder, name), page, 0o644); err != nil {
			return fmt.Errorf("the program was replaced, but not its manual: %w", err)
		}
	}
	return nil
}
