// Package programtest builds trellis for tests that run it as its users do.
package programtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Build makes the program at path as make build has it. root is the folder of this module. The program is linked once for all
// packages whose tests ask for it, also where those run at the same time: it stays in .tools, and go links it again when something
// of it changed. What is at path is a copy that nobody replaces.
func Build(root, path string) error {
	return alone(root, func(kept string) error {
		if err := command(root, "build", "-o", filepath.Join(kept, "trellis"), "./cmd/trellis"); err != nil {
			return err
		}
		// Copied by another process: what this one has open for writing, its children may have open too, and can't be run then.
		if out, err := exec.Command("cp", filepath.Join(root, kept, "trellis"), path).CombinedOutput(); err != nil {
			return fmt.Errorf("copying: %w\n%s", err, out)
		}
		return nil
	})
}

// Kept builds a program of tests, and is where it stays in .tools: who links to it finds it there until its source is changed.
func Kept(pkg string) (path string, err error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	err = alone(root, func(kept string) error {
		path = filepath.Join(root, kept, filepath.Base(pkg))
		return command(root, "build", "-buildvcs=false", "-o", path, pkg)
	})
	return path, err
}

// Root is the folder of this project, for tests, which begin in that of their package.
func Root() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("there is no go.mod above %s", at)
}

// Go runs go with args in root, for a program that differs from that of Build in how it is linked or in its main package. What
// Build, Go and others of theirs in other processes have in common is compiled once: go by itself has each compile it that begins
// before another is done.
func Go(root string, args ...string) error {
	return alone(root, func(string) error { return command(root, args...) })
}

// alone does what builds while nobody else does. kept is a folder for what is built, below root.
func alone(root string, build func(kept string) error) (err error) {
	kept := filepath.Join(".tools", "program")
	if err := os.MkdirAll(filepath.Join(root, kept), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(root, kept, "lock"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := durable.Flock(lock, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for others that build: %w", err)
	}
	return build(kept)
}

// command runs go as make build does: without C's library and what the commands' library has for documentation.
func command(root string, args ...string) error {
	cmd := exec.Command("go", slices.Insert(slices.Clone(args), 1, "-tags=urfave_cli_no_docs")...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w\n%s", err, out)
	}
	return nil
}
