// Package programtest builds trellis for tests that run it as its users do.
package programtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Build makes the program at path as make build has it. root is the folder of this module. The program is linked once for all
// packages whose tests ask for it, also where those run at the same time: it stays in .tools, and go links it again when something
// of it changed. What is at path is a copy that nobody replaces.
func Build(root, path string) (err error) {
	kept := filepath.Join(root, ".tools", "program")
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(kept, "lock"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := durable.Flock(lock, syscall.LOCK_EX); err != nil {
		return fmt.Errorf("waiting for others that build: %w", err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(".tools", "program", "trellis"), "./cmd/trellis")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w\n%s", err, out)
	}
	// Copied by another process: what this one has open for writing, its children may have open too, and can't be run then.
	if out, err := exec.Command("cp", filepath.Join(kept, "trellis"), path).CombinedOutput(); err != nil {
		return fmt.Errorf("copying: %w\n%s", err, out)
	}
	return nil
}
