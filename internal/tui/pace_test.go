package tui

import (
	"bytes"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// written is the output of a program, and signals when something is written.
type written struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	came chan struct{}
}

func (w *written) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.buf.Write(data)
	select {
	case w.came <- struct{}{}:
	default:
	}
	return n, err
}

func (w *written) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.buf.Bytes(), []byte(text))
}

// The ticker is found in this version of the library, and a change is drawn even while the pace is slow.
func TestPace(t *testing.T) {
	out := &written{came: make(chan struct{}, 1)}
	m := three(t).Model
	program := tea.NewProgram(m, tea.WithInput(nil), tea.WithOutput(out), tea.WithWindowSize(80, 24), tea.WithoutSignalHandler())
	found := make(chan *pace, 1)
	var own *pace
	m.onDraw = func() {
		if own == nil {
			own = newPace(program)
			found <- own
		}
		own.hurry()
	}
	ended := make(chan error, 1)
	go func() { _, err := program.Run(); ended <- err }()
	p := <-found
	if p == nil {
		t.Fatal("the ticker of a program is not found: its pace is that of the library")
	}
	p.mu.Lock()
	p.until = time.Time{} // as if nothing had changed for a while
	p.mu.Unlock()
	p.calm()
	program.Send(Notice("something worth knowing"))
	for end := time.After(15 * time.Minute); !out.has("something worth knowing"); {
		select {
		case <-out.came:
		case <-end:
			t.Fatal("it is not drawn")
		}
	}
	program.Quit()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
