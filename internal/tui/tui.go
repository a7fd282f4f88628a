// Package tui is the terminal UI: on the left the tasks of a repository by status, on the right what is known of the
// selected one, and keys that give it orders. Events report what happens; while nothing happens, nothing is done.
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

// Terminal is the terminal of the screen.
type Terminal struct {
	In, Out *os.File
	Colour  bool
	// Save saves the state of the terminal, for programs that leave it in another.
	Save func() (restore func(), err error)
}

// fallbackFPS is how many times a second the screen is drawn if newPace returns nil.
const fallbackFPS = 30

// Run shows the tasks of a project until the person ends it. self is this program, which is run for what
// needs the terminal; dir is where it was started. If a signal ends it, Run returns the cause of ctx.
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
	program := tea.NewProgram(m, tea.WithInput(t.In), tea.WithOutput(t.Out), tea.WithEnvironment(p.Env.Vars), tea.WithColorProfile(profile), tea.WithoutSignalHandler(), tea.WithFPS(fallbackFPS))
	var own *pace
	m.onDraw = func() {
		if own == nil {
			own = newPace(program)
		}
		own.hurry()
	}
	p.Env.Say = func(format string, args ...any) { go program.Send(Notice(fmt.Sprintf(format, args...))) }
	ended := make(chan struct{})
	defer close(ended)
	go endOnSignal(program, m, ended)
	_, err = program.Run()
	cancel()
	w.waitForOrders(func() { fmt.Fprintln(t.Out, "trellis: ending what was ordered …") })
	if err != nil {
		return fmt.Errorf("showing the screen: %w", err)
	}
	if cause := context.Cause(ctx); cause != nil && !m.quitByKey {
		return cause
	}
	return nil
}

// endOnSignal ends the program on a signal, and before that the program that has the terminal. An interrupt
// is left to the latter: the keys of the screen itself send none.
func endOnSignal(program *tea.Program, m *Model, ended <-chan struct{}) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGINT && m.terminalOwner.hasProgram() {
				continue
			}
			m.terminalOwner.end()
			program.Quit()
		case <-ended:
			return
		}
	}
}
