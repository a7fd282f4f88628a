package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
)

func TestExchange(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, folder := range []string{a, b} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "name"), filepath.Base(folder))
	}
	broken := errors.New("broken")
	disk := &durable.Disk{Fault: func(step, _ string) error { return map[string]error{"rename": broken}[step] }}
	if err := disk.Exchange(a, b); !errors.Is(err, broken) || read(t, filepath.Join(b, "name")) != "b" {
		t.Errorf("%v, and b has %s", err, read(t, filepath.Join(b, "name")))
	}
	disk = nil
	if err := disk.Exchange(a, b); err != nil || read(t, filepath.Join(b, "name")) != "a" || read(t, filepath.Join(a, "name")) != "b" {
		t.Errorf("%v, and b has %s", err, read(t, filepath.Join(b, "name")))
	}
	if err := disk.Exchange(filepath.Join(dir, "gone"), b); err == nil || read(t, filepath.Join(b, "name")) != "a" {
		t.Errorf("with what is not there: %v", err)
	}
}
