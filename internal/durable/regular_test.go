package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// What a program may leave in the place of a file neither blocks its reader, nor fills memory, nor leads elsewhere.
func TestReadBelow(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "dir")
	makes := []error{
		os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "a"), []byte("four"), 0o644), os.WriteFile(filepath.Join(root, "out"), []byte("out"), 0o644),
		os.Symlink("a", filepath.Join(dir, "near")), os.Symlink("../out", filepath.Join(dir, "far")), os.Symlink("/dev/zero", filepath.Join(dir, "zero")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644), os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o644), os.Truncate(filepath.Join(dir, "sparse"), 1<<40),
	}
	if err := errors.Join(makes...); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"a": nil, "near": nil, "pipe": durable.ErrIrregular, ".": syscall.EISDIR, "sparse": durable.ErrTooLarge, "none": os.ErrNotExist,
	} {
		got, err := durable.ReadBelow(dir, name, 4)
		if !errors.Is(err, want) || err == nil && string(got) != "four" {
			t.Errorf("%s: got %q, %v, want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"far", "zero"} {
		if got, err := durable.ReadBelow(dir, name, 4); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
	if _, err := durable.ReadBelow(dir, "a", 3); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("a file of 4 bytes where 3 are the most: got %v", err)
	}
}
