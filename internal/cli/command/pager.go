package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Page calls write with standard output, or, on a terminal, with the pager that git would use:
// $GIT_PAGER, core.pager of the person's settings, $PAGER or less.
func (c *Console) Page(ctx context.Context, p *app.Project, write func(io.Writer) error) error {
	if !IsTerminal(c.Stdout) || c.Getenv("TERM") == "dumb" {
		return write(c.Stdout)
	}
	program, err := c.pager(ctx, p)
	if err != nil {
		return err
	}
	if program == "" || program == "cat" {
		return write(c.Stdout)
	}
	cmd := exec.Command("/bin/sh", "-c", program)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = c.Dir, RawOutput(c.Stdout), c.Stderr, slices.Clone(c.Env)
	for _, unset := range []string{"LESS=FRX", "LV=-c"} {
		if name, _, _ := strings.Cut(unset, "="); !slices.ContainsFunc(c.Env, func(s string) bool { return strings.HasPrefix(s, name+"=") }) {
			cmd.Env = append(cmd.Env, unset)
		}
	}
	err = proc.Page(ctx, cmd, write)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && (exit.ExitCode() == 126 || exit.ExitCode() == 127) {
		err = app.WithHints(fmt.Errorf("the pager %q can't be run: %w", program, err), "export GIT_PAGER=less, or cat for none")
	}
	return err
}

// pager returns the command line of the pager, or "" for none.
func (c *Console) pager(ctx context.Context, p *app.Project) (string, error) {
	if i := slices.IndexFunc(c.Env, func(s string) bool { return strings.HasPrefix(s, "GIT_PAGER=") }); i >= 0 {
		return strings.TrimPrefix(c.Env[i], "GIT_PAGER="), nil
	}
	set, err := app.Pager(ctx, p)
	if program := cmp.Or(set, c.Getenv("PAGER")); program != "" || err != nil {
		return program, err
	}
	if c.Caller().LookPath("less") != nil {
		return "", nil
	}
	return "less", nil
}
