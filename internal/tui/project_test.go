package tui

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
)

// If a person leaves while an order is carried out, the order's program is told to end, and is waited for.
func TestOrderEndsProperly(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "trellis")
	script := "#!/bin/sh\ntrap 'touch ended; exit 143' TERM\necho > begun\nwhile :; do sleep 0.01; done\n"
	if err := os.WriteFile(self, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "begun"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &project{Project: &app.Project{Env: &app.Env{Vars: os.Environ()}}, self: self, dir: dir}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan error, 1)
	go func() { _, err := p.Give(ctx, Deliver, "02-01-auth", Subject{}, ""); gone <- err }()
	if _, err := os.ReadFile(filepath.Join(dir, "begun")); err != nil {
		t.Fatal(err)
	}
	cancel()
	said := false
	p.waitForOrders(func() { said = true })
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil || !said {
		t.Errorf("it did not end by itself: %v; that it is waited for was said: %v", err, said)
	}
	if err := <-gone; err == nil {
		t.Error("that it was ended is not an error")
	}
}
