// Package tui is the terminal UI: on the left the tasks of a repository by status, on the right what is known of the
// selected one, and keys that tell it what to do. What happens is told by events; while nothing happens, nothing is done.
package tui

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/trellis-tasks/trellis/internal/app"
)

// Terminal is where the screen is.
type Terminal struct {
	In, Out *os.File
	Colour  bool
	// Save keeps how the terminal is, for programs that leave it otherwise.
	Save func() (restore func(), err error)
}

// frames are how often a second the screen is drawn where it has no pace of ours.
const frames = 30

// Run shows the tasks of a project until a person has enough. Self is this program, which is run for what needs the
// terminal; dir is where it was started. A signal that ends it is returned as the cause of ctx.
func Run(ctx context.Context, p *app.Project, t Terminal, self, dir string, now func() time.Time) error {
	restore, err := t.Save()
	if err != nil {
		return fmt.Errorf("keeping how the terminal is: %w", err)
	}
	defer restore()
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	w := &project{Project: p, self: self, dir: dir}
	m := New(inner, w, filepath.Base(p.Root), t.Colour, now)
	m.restore = restore
	profile := colorprofile.ANSI
	if !t.Colour {
		profile = colorprofile.ASCII
	}
	program := tea.NewProgram(m, tea.WithInput(t.In), tea.WithOutput(t.Out), tea.WithEnvironment(p.Env.Vars), tea.WithColorProfile(profile), tea.WithoutSignalHandler(), tea.WithFPS(frames))
	var own *pace
	m.drawn = func() {
		if own == nil {
			own = paceOf(program)
		}
		own.hurry()
	}
	p.Env.Say = func(format string, args ...any) { go program.Send(Told(fmt.Sprintf(format, args...))) }
	ended := make(chan struct{})
	defer close(ended)
	go end(program, m, ended)
	_, err = program.Run()
	cancel()
	w.wait(func() { fmt.Fprintln(t.Out, "trellis: ending what was ordered …") })
	if err != nil {
		return fmt.Errorf("showing the screen: %w", err)
	}
	if cause := context.Cause(ctx); cause != nil && !m.left {
		return cause
	}
	return nil
}

// end ends the program when a signal says so, and what has the terminal before that. An interrupt is for what has the
// terminal alone: the keys of the screen itself send none.
func end(program *tea.Program, m *Model, ended <-chan struct{}) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGINT && m.guests.at() {
				continue
			}
			m.guests.end()
			program.Quit()
		case <-ended:
			return
		}
	}
}
