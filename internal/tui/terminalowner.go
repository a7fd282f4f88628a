package tui

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/muesli/cancelreader"
)

// terminalOwner knows which program has the terminal.
type terminalOwner struct {
	mu           sync.Mutex
	process      *os.Process
	ended        bool                      // no further program may begin
	waitingInput cancelreader.CancelReader // waits for a person to go on; nil: nothing waits
}

// hasProgram reports whether a program has the terminal.
func (g *terminalOwner) hasProgram() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process != nil
}

// end ends the program that has the terminal, and lets no other begin.
func (g *terminalOwner) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	if g.process != nil {
		_ = errors.Join(g.process.Signal(syscall.SIGTERM), g.process.Signal(syscall.SIGHUP)) // a shell obeys the second; an error means that it has ended
	}
	if g.waitingInput != nil {
		g.waitingInput.Cancel()
	}
}

// run runs a program, and records that it has the terminal.
func (g *terminalOwner) run(cmd *exec.Cmd) error {
	g.mu.Lock()
	if g.ended {
		g.mu.Unlock()
		return errors.New("trellis ui ends")
	}
	err := cmd.Start()
	if err == nil {
		g.process = cmd.Process
	}
	g.mu.Unlock()
	if err != nil {
		return err
	}
	err = cmd.Wait()
	g.mu.Lock()
	g.process = nil
	g.mu.Unlock()
	return err
}

// terminalReset turns off what a program that was killed may have left on: the mouse, bracketed paste, the
// alternate screen, colours, and a hidden cursor.
const terminalReset = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1049l\x1b[0m\x1b[?25h\x1b>"

// terminalProgram is a program that gets the terminal for a while.
type terminalProgram struct {
	*exec.Cmd
	owner   *terminalOwner
	wait    bool   // wait until a person has read its last output
	restore func() // restores the state of the terminal
}

// Run runs the program. Whatever ended it, the terminal is as it was before.
func (g *terminalProgram) Run() error {
	err := g.owner.run(g.Cmd)
	g.restore()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 { // a signal ended it
		fmt.Fprint(g.Stdout, terminalReset)
	}
	if g.wait {
		g.owner.waitForEnter(g.Stdin, g.Stdout)
	}
	return err
}

// waitForEnter waits until a person has read what is on the screen, and pressed enter.
func (g *terminalOwner) waitForEnter(in io.Reader, out io.Writer) {
	r, err := cancelreader.NewReader(in)
	if err != nil {
		return
	}
	g.mu.Lock()
	ended := g.ended
	g.waitingInput = r
	g.mu.Unlock()
	letter := make([]byte, 1)
	for !ended && letter[0] != '\n' && letter[0] != '\r' {
		if letter[0] == 0 {
			fmt.Fprint(out, "\ntrellis: enter goes back to trellis ui ")
		}
		if _, err := r.Read(letter); err != nil {
			break
		}
	}
	g.mu.Lock()
	g.waitingInput = nil
	g.mu.Unlock()
	_ = r.Close() // closes only what r opened itself
}

// SetStdin implements tea.ExecCommand.
func (g *terminalProgram) SetStdin(r io.Reader) { g.Stdin = r }

// SetStdout implements tea.ExecCommand.
func (g *terminalProgram) SetStdout(w io.Writer) { g.Stdout = w }

// SetStderr implements tea.ExecCommand.
func (g *terminalProgram) SetStderr(w io.Writer) { g.Stderr = w }
