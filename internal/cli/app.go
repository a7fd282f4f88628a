package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// console is one call of trellis: what it reads and writes, and where. Commands take everything from it
// and nothing from package os, so that a test can run them in its own process.
type console struct {
	Stdin  io.Reader
	Stdout io.Writer // results
	Stderr io.Writer // everything else
	Env    []string  // KEY=VALUE
	Dir    string    // the folder trellis was called in
	Now    func() time.Time
	Disk   *durable.Disk // nil is a disk without faults
	// SharedFS names the kind of a file system that several machines may use; nil: the system is asked.
	SharedFS func(path string) (string, error)
	// Guard starts this program again under a process that ends what it leaves behind; see proc.Guard.
	// Nil: there is none, as in tests that run in their own process.
	Guard func() (worker bool, code int, err error)

	news   *newsroom // of the project that was opened
	unkept sync.Once // says that settings can't be kept
}

// Run does what the arguments (without the program's name) ask for, reports an error on Stderr and
// returns the exit code.
func (a *console) Run(ctx context.Context, args []string) int {
	defer a.closeNews(ctx)
	return a.end(ctx, a.dispatch(ctx, args))
}

// end reports an error and returns its exit code. What a signal cut off ends with that signal.
func (a *console) end(ctx context.Context, err error) int {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = app.WithHints(context.Cause(ctx), app.HintsOf(err)...)
	}
	a.report(err)
	return exitCode(err)
}

// dispatch finds the command that args name and runs it, or shows its help.
func (a *console) dispatch(ctx context.Context, args []string) error {
	line, err := arrange(a.root(), args)
	if err != nil {
		return err
	}
	if line.help || line.command == nil && !line.version {
		return a.showHelp(line.path...)
	}
	tree := a.tree()
	return tree.RunContext(ctx, append([]string{tree.Name}, line.args...))
}

// tree is the command tree for the parser. Nothing in it exits, prints usage errors by itself, or
// takes a comma in a value for a separator.
func (a *console) tree() *cli.App {
	root := a.root()
	return &cli.App{
		Name:                      root.Name,
		Usage:                     root.Usage,
		Flags:                     root.Flags,
		Commands:                  root.Subcommands,
		Action:                    func(c *cli.Context) error { return a.showVersion() },
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		OnUsageError:              badFlag,
		ExitErrHandler:            func(*cli.Context, error) {},
		Reader:                    a.Stdin,
		Writer:                    a.Stdout,
		ErrWriter:                 a.Stderr,
	}
}

// root is the whole command tree.
func (a *console) root() *cli.Command {
	root := &cli.Command{
		Name:        "trellis",
		Usage:       "turns a requirement into a reviewed git branch",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version and end"}},
		Subcommands: a.commands(),
	}
	complete(root.Subcommands)
	return root
}

// complete sets what every command has and the parser does not inherit.
func complete(commands []*cli.Command) {
	for _, c := range commands {
		c.HideHelp = true
		c.OnUsageError = badFlag
		if len(c.Subcommands) > 0 && c.Action == nil {
			c.Action = needsCommand
		}
		complete(c.Subcommands)
	}
}

// badFlag makes what the parser says about a flag's value a usage error.
func badFlag(c *cli.Context, err error, _ bool) error {
	return app.Usagef("%w", err)
}

// needsCommand is what a command does that only has others below it.
func needsCommand(c *cli.Context) error {
	var names []string
	for _, s := range c.Command.Subcommands {
		names = append(names, s.Name)
	}
	return app.Usagef("%s needs a command: %s", c.Command.HelpName, strings.Join(names, ", "))
}

// getenv is the value of an environment variable, "" when it is not set.
func (a *console) getenv(name string) string {
	for i := len(a.Env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.Env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour reports whether w may get colours.
func (a *console) colour(w io.Writer) bool {
	return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" && isTerminal(w)
}

// say prints a line for people, apart from the results. Agents and authors of issues have a hand in many.
func (a *console) say(format string, args ...any) {
	fmt.Fprintln(a.Stderr, terminal.Safe("trellis: "+fmt.Sprintf(format, args...)))
}
