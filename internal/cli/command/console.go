// Package command has what all commands need: the console that they read and write, flags and help
// text that they share, values that several of them take, and exit codes. Groups of commands are
// packages of their own, in the folders beside this one.
package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Console is one call of trellis: what it reads and writes, and where. Commands take everything from it
// and nothing from package os, so that a test can run them in its own process.
type Console struct {
	Stdin  io.Reader
	Stdout io.Writer // results
	Stderr io.Writer // everything else
	Env    []string  // KEY=VALUE
	Dir    string    // the folder trellis was called in
	Now    func() time.Time
	Disk   *durable.Disk // nil: a disk without injected faults
	// SharedFS returns the kind of a file system that several machines may use; nil: durable.SharedFS is used.
	SharedFS func(path string) (string, error)
	// Guard starts this program again as a worker, and ends what the worker leaves behind; see
	// proc.Guard. If it is nil, work is not guarded, as in tests that run in their own process.
	Guard func() (worker bool, code int, err error)

	// JSONErrors has errors reported as JSON documents on Stderr, as calls with --json want them.
	JSONErrors bool

	notes  []string           // with JSONErrors, held back until Report, which prints them unless it prints an error document
	news   *app.Notifications // of the project that was opened
	traces *app.Traces
}

// Caller returns the environment of this call for package app.
func (c *Console) Caller() *app.Env {
	return &app.Env{Vars: c.Env, Dir: c.Dir, Now: c.Now, Disk: c.Disk, Say: c.Say}
}

// Open opens the project that a command works in. Only commands that need a project call it.
func (c *Console) Open(ctx context.Context) (*app.Project, error) {
	return c.remember(c.Caller().Open(ctx))
}

// OpenRepository opens a project that may not be set up yet.
func (c *Console) OpenRepository() (*app.Project, error) {
	return c.remember(c.Caller().OpenRepository())
}

func (c *Console) remember(p *app.Project, err error) (*app.Project, error) {
	if err == nil {
		c.news, c.traces = p.News, p.Traces
	}
	return p, err
}

// Close delivers the notifications that are due, and sends the spans that are left.
func (c *Console) Close(ctx context.Context) {
	c.news.Close(ctx)
	c.traces.Close(ctx)
}

// Getenv returns the value of an environment variable, "" if it is not set.
func (c *Console) Getenv(name string) string { return c.Caller().Get(name) }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	if out, isWriter := w.(io.Writer); isWriter {
		w = RawOutput(out)
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// SaveTerminal saves the state of the terminal f, and returns a function that restores it.
func SaveTerminal(f *os.File) (restore func(), err error) {
	state, err := term.GetState(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(int(f.Fd()), state) }, nil // a terminal that is gone needs no restoring
}

// Colour reports whether colours may be written to w.
func (c *Console) Colour(w io.Writer) bool {
	return c.Getenv("NO_COLOR") == "" && c.Getenv("TERM") != "dumb" && IsTerminal(w)
}

// Style returns what w, one of the console's streams, can show.
func (c *Console) Style(w io.Writer) terminal.Style {
	s := terminal.Style{Colour: c.Colour(w)}
	if f, ok := RawOutput(w).(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil {
			s.Width, s.Height = width, height
		}
	}
	return s
}

// Show prints on Stderr what happens in a site while it happens; with quiet, only messages. The caller must call Close.
func (c *Console) Show(s *runner.Site, quiet bool) *terminal.Live {
	return c.show(s, quiet, !quiet && IsTerminal(c.Stderr) && c.Getenv("TERM") != "dumb")
}

// ShowTasks is Show for commands that follow tasks. Without a terminal, or with --plain, it prints
// a line with the time for each event.
func (c *Console) ShowTasks(call *cli.Context, s *runner.Site, quiet bool) *terminal.Live {
	live := !quiet && IsTerminal(c.Stderr) && c.Getenv("TERM") != "dumb" && !call.Bool("plain")
	show := c.show(s, quiet, live)
	if !live && !quiet {
		show.ShowTimes()
	}
	return show
}

func (c *Console) show(s *runner.Site, quiet, live bool) *terminal.Live {
	style := c.Style(c.Stderr)
	if !live {
		style.Colour = false
	}
	show := terminal.NewLive(c.Stderr, style, live, c.Now)
	if f, ok := c.Stderr.(*os.File); ok && live {
		show.FollowResizes(func() (width, height int) {
			width, height, _ = term.GetSize(int(f.Fd())) // 0 on an error: the size stays
			return width, height
		}, proc.Resizes)
	}
	s.Event = func(e runner.Event) {
		if !quiet || e.Message != "" {
			show.ShowRunnerEvent(e)
		}
	}
	return show
}

// Say prints lines for people on Stderr. It makes control characters visible: texts of agents and authors of issues are in many.
func (c *Console) Say(format string, args ...any) {
	fmt.Fprintln(c.Stderr, trellis.Visible("trellis: "+strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\ntrellis: ")))
}

// SeesAll reports whether a person reads results and everything else on one terminal.
func (c *Console) SeesAll() bool { return IsTerminal(c.Stdout) && IsTerminal(c.Stderr) }

// Result prints what a script takes from a command: a directory, an id, an address. A person who sees all has read it before.
func (c *Console) Result(text string) error {
	if c.SeesAll() {
		return nil
	}
	_, err := fmt.Fprintln(c.Stdout, text)
	return err
}

// SayProblems prints problems as notes, each with what to do about it.
func (c *Console) SayProblems(problems []trellis.Problem) {
	for _, p := range problems {
		kind := ""
		if p.Warning {
			kind = "warning: "
		}
		Note(c, "%s%v", kind, &p)
		if p.Hint != "" {
			Note(c, "next: %s", p.Hint)
		}
	}
}

// PrintProblems prints problems as a result, each with what to do about it.
func (c *Console) PrintProblems(problems []trellis.Problem) {
	for _, p := range problems {
		kind := "error"
		if p.Warning {
			kind = "warning"
		}
		fmt.Fprintf(c.Stdout, "%s: %s\n", kind, trellis.Visible(p.Error()))
		if p.Hint != "" && (!strings.HasPrefix(p.Hint, "trellis validate ") || strings.Contains(p.Hint, " --")) { // the caller may be trellis validate itself
			fmt.Fprintf(c.Stdout, "    next: %s\n", trellis.Visible(p.Hint))
		}
	}
}

// CanAsk reports whether there is a person who can be asked.
func (c *Console) CanAsk() bool { return IsTerminal(c.Stdin) && IsTerminal(c.Stderr) }

// Confirm asks a person a question; only y and yes agree.
func (c *Console) Confirm(question string) (bool, error) {
	fmt.Fprint(c.Stderr, trellis.Visible("trellis: "+question)+" [y/N] ")
	line, err := bufio.NewReader(io.LimitReader(c.Stdin, 100)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// Choose asks a person for one of several answers, which begin with different letters. An empty
// line selects the first one. At the end of the input the error matches io.EOF.
func (c *Console) Choose(ctx context.Context, question string, answers ...string) (string, error) {
	var words []string
	for _, a := range answers {
		words = append(words, "["+a[:1]+"]"+a[1:])
	}
	for {
		line, err := c.Ask(ctx, question+": "+strings.Join(words, ", ")+"?")
		if err != nil {
			return "", fmt.Errorf("reading the answer: %w", err)
		}
		said := strings.ToLower(line)
		if said == "" {
			return answers[0], nil
		}
		for _, a := range answers {
			if strings.HasPrefix(a, said) {
				return a, nil
			}
		}
	}
}

// ExitStatus is the exit code of a command that ran in another process, which has reported the error.
type ExitStatus int

func (e ExitStatus) Error() string { return "" }

// Guarded runs work in a separate process, so that this one can end what work started, however it
// ends. Within that process, and without a Guard, it calls work directly.
func (c *Console) Guarded(work func() error) error {
	if c.Guard == nil {
		return work()
	}
	worker, code, err := c.Guard()
	switch {
	case errors.As(err, new(*proc.SignalError)):
		return app.WithHints(fmt.Errorf("%w, by somebody or by the system for want of memory", err), "trellis status, or trellis run --resume with the id of a run of a file")
	case err != nil:
		return err
	case worker:
		return work()
	}
	return ExitStatus(code)
}

// InGuard returns an action that runs do in a separate process; see Guarded.
func (c *Console) InGuard(do cli.ActionFunc) cli.ActionFunc {
	return func(call *cli.Context) error { return c.Guarded(func() error { return do(call) }) }
}

// RequirePerson returns an error in a process that is part of a task or a run, which may not do what can names by itself.
func (c *Console) RequirePerson(can string) error { return c.Caller().RequirePerson(can) }

// InsideRun reports whether this process is part of a task or a run.
func (c *Console) InsideRun() bool { return c.Caller().InsideRun() }

// Print prints a result: document as JSON, or what text prints.
func (c *Console) Print(asJSON bool, document any, text func() error) error {
	if asJSON {
		return terminal.JSON(c.Stdout, document)
	}
	return text()
}

// Path returns the path that a person gave as name, relative to the folder that trellis was called in.
func (c *Console) Path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(c.Dir, name)
}
