package cli

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// demoFiles is the repository of the demo: a small program with its tests, and the script that plays the agent.
//
//go:embed all:demo
var demoFiles embed.FS

func demoCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "show the whole workflow in a scratch repository, without a model or an account",
		Description: command.Manual(`Creates a small repository in a temporary folder and takes two requirements through plan and watch: one
is rejected, the other ends as a checked commit on its branch, after a bug that the project's own test finds
and the debug phase fixes. A script plays the agent; everything else is real. The repository is kept for you
to look at.`, []int{command.ExitDone, command.ExitFailed, command.ExitInterrupted}, "trellis demo"),
		Action: a.InGuard(func(c *cli.Context) error {
			files, err := fs.Sub(demoFiles, "demo")
			if err != nil {
				return err
			}
			return runDemo(c.Context, a, files)
		}),
	}
}

// runDemo runs the demo of files. It checks that each step it prints took place, and returns an error if one did not.
func runDemo(ctx context.Context, a *command.Console, files fs.FS) (err error) {
	d := &demo{app: a}
	if d.dir, err = os.MkdirTemp(a.Getenv("TMPDIR"), "trellis-demo-"); err != nil {
		return fmt.Errorf("making a folder for the demo: %w", err)
	}
	if d.state, err = os.MkdirTemp(a.Getenv("TMPDIR"), "trellis-demo-state-"); err != nil {
		return fmt.Errorf("making a folder for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.state)) }()
	fmt.Fprintf(a.Stdout, "A script plays the agent: no model is involved. Repository, worktree, checks and commits are real.\n")
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return d.createRepository(ctx, files) },
		d.showRejection, d.planTask, d.runWatcher, d.showResult,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%w (the repository is %s)", err, d.dir)
		}
	}
	fmt.Fprintf(a.Stdout, `
That was the whole way, without a model: a script played the agent.
The repository stays at %s

With a real agent, in a repository of yours:
  trellis init                    finds claude, codex or opencode and sets it in .trellis/config.yaml
  trellis doctor                  says whether it is signed in
  trellis plan 'what is wanted'
  trellis watch
`, d.dir)
	return nil
}

// demo is one run of the demo.
type demo struct {
	app   *command.Console
	dir   string
	state string // XDG_STATE_HOME of the commands, so that the state of the user is not touched
	task  string // directory of the task that was accepted, relative to dir
}

func (d *demo) title(text string) {
	fmt.Fprintf(d.app.Stdout, "\n── %s\n", text)
}

// createRepository creates the repository: the program, its tests, a commit, and .trellis.
func (d *demo) createRepository(ctx context.Context, files fs.FS) error {
	d.title("A repository with a small program and its tests")
	if err := os.CopyFS(d.dir, files); err != nil {
		return fmt.Errorf("writing the repository: %w", err)
	}
	for _, line := range []string{"git init -q -b main", "git config user.name 'Trellis Demo'", "git config user.email demo@localhost", "git add -A", "git commit -q -m 'greet: say hello'"} {
		if err := d.shell(ctx, line); err != nil {
			return err
		}
	}
	if err := d.shell(ctx, "sh test.sh"); err != nil {
		return err
	}
	_, err := d.trellis(ctx, command.ExitDone, "init", "--agent", "rehearsal")
	return err
}

func (d *demo) showRejection(ctx context.Context) error {
	d.title("A requirement that nobody could build from is rejected, with a reason")
	out, err := d.trellis(ctx, command.ExitRejected, "plan", "--name", "better-greeting", "--type", "backend", "--requirement", "Make the greeting better.")
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(d.dir, text.LastLine(out), "REJECTED.md"))
	return err
}

func (d *demo) planTask(ctx context.Context) error {
	d.title("A clear one becomes a task directory: its first plan forgets the tests and comes back")
	out, err := d.trellis(ctx, command.ExitDone, "plan", "--name", "shout", "--type", "backend", "--requirement", "greet.sh takes --shout before the name and then prints the whole greeting in capital letters.")
	if err != nil {
		return err
	}
	d.task = text.LastLine(out)
	if err := d.print(filepath.Join(d.task, "prd.md")); err != nil {
		return err
	}
	return d.print(filepath.Join(d.task, "plan.json"))
}

// runWatcher lets the watcher pick the task up. The script's implement agent writes a bug.
func (d *demo) runWatcher(ctx context.Context) error {
	d.title("The watcher picks it up: implement, check, the project's own test, debug")
	if _, err := d.trellis(ctx, command.ExitDone, "watch", "--once"); err != nil {
		return err
	}
	if err := d.shell(ctx, "git log --oneline main..feature/shout"); err != nil {
		return err
	}
	return d.shell(ctx, "git worktree add -q --detach ../"+filepath.Base(d.dir)+"-check feature/shout && cd ../"+filepath.Base(d.dir)+"-check && sh test.sh && cd - >/dev/null && git worktree remove ../"+filepath.Base(d.dir)+"-check")
}

func (d *demo) showResult(ctx context.Context) error {
	d.title("What came of it")
	if err := d.print(filepath.Join(d.task, "report.md")); err != nil {
		return err
	}
	_, err := d.trellis(ctx, command.ExitDone, "diff", d.task)
	return err
}

// trellis runs a trellis command in this process, in the repository. It returns an error unless the command exits with want.
func (d *demo) trellis(ctx context.Context, want int, args ...string) (string, error) {
	line := "$ trellis"
	for _, arg := range args {
		line += " " + trellis.ShellWord(arg)
	}
	fmt.Fprintln(d.app.Stdout, line)
	var out bytes.Buffer
	sub := &console{Console: command.Console{Stdin: strings.NewReader(""), Stdout: io.MultiWriter(d.app.Stdout, &out), Stderr: d.app.Stderr, Env: append(slices.Clone(d.app.Env), "XDG_STATE_HOME="+d.state), Dir: d.dir, Now: d.app.Now}}
	if got := sub.Run(ctx, args); got != want {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		return "", fmt.Errorf("trellis %s exited with %d, not with %d", args[0], got, want)
	}
	return out.String(), nil
}

// shell prints a shell command and runs it in the repository.
func (d *demo) shell(ctx context.Context, line string) error {
	fmt.Fprintf(d.app.Stdout, "$ %s\n", line)
	res, err := proc.Run(ctx, proc.Command{Argv: proc.Shell(line), Dir: d.dir, Env: d.app.Caller().CommandEnv(), Stdout: command.RawOutput(d.app.Stdout), Stderr: command.RawOutput(d.app.Stdout)})
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("%s exited with %d", line, res.Code)
	}
	return err
}

func (d *demo) print(name string) error {
	data, err := durable.ReadBelow(d.dir, name, durable.MaxDocument)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.app.Stdout, "$ cat %s\n%s\n", name, data)
	return nil
}
