package cli

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
)

// console runs one call of trellis.
type console struct{ command.Console }

// Run runs the command that args (without the program's name) ask for, reports an error on Stderr
// and returns the exit code.
func (a *console) Run(ctx context.Context, args []string) int {
	return program(&a.Console).Run(ctx, &a.Console, args)
}

func program(a *command.Console) commandline.Program {
	return commandline.New("trellis", "turn a requirement into a reviewed git branch", commands(a))
}
