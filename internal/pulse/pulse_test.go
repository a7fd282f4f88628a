package pulse_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pulse"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

func TestLook(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(pulse.Lock(root)), 0o755); err != nil {
		t.Fatal(err)
	}
	if s := pulse.Look(root, noon); s.Alive || s.Hangs {
		t.Errorf("without a lock: got %+v", s)
	}
	lock, err := durable.TryLock(pulse.Lock(root), durable.Holder{PID: 7, Since: noon})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if s := pulse.Look(root, noon.Add(time.Minute)); !s.Alive || s.Hangs || s.Holder.PID != 7 {
		t.Errorf("before the first beat: got %+v", s)
	}
	if s := pulse.Look(root, noon.Add(3*time.Minute)); !s.Hangs {
		t.Errorf("when none comes: got %+v", s)
	}
	for _, test := range []struct {
		pid   int
		after time.Duration
		hangs bool
	}{{7, 4 * time.Minute, false}, {7, 6 * time.Minute, true}, {8, 4 * time.Minute, true}} { // 8: one before
		if err := (pulse.Beat{PID: test.pid, At: noon.Add(3 * time.Minute)}).Write(nil, root); err != nil {
			t.Fatal(err)
		}
		if s := pulse.Look(root, noon.Add(test.after)); s.Hangs != test.hangs || (s.Beat.PID == 7) != (test.pid == 7) {
			t.Errorf("beat of %d, %v later: got %+v", test.pid, test.after, s)
		}
	}
	lock.Unlock()
	if s := pulse.Look(root, noon); s.Alive || s.Beat.PID != 0 {
		t.Errorf("after its end: got %+v", s)
	}
	for range 2 {
		if err := pulse.Remove(root); err != nil {
			t.Error(err)
		}
	}
}

// A watcher that can't write its beat lives all the same.
func TestBeatThatIsNotWritten(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(pulse.Lock(root)), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(pulse.Lock(root), durable.Holder{PID: 7, Since: noon})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := (pulse.Beat{PID: 7, At: noon}).Write(nil, root); err != nil {
		t.Fatal(err)
	}
	full := &durable.Disk{Fault: func(string, string) error { return syscall.ENOSPC }}
	if err := (pulse.Beat{PID: 7, At: noon.Add(10 * time.Minute)}).Write(full, root); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if s := pulse.Look(root, noon.Add(11*time.Minute)); !s.Alive || s.Hangs || !s.Beat.At.Equal(noon) {
		t.Errorf("got %+v", s)
	}
	if s := pulse.Look(root, noon.Add(13*time.Minute)); !s.Hangs {
		t.Errorf("later: got %+v", s)
	}
}
