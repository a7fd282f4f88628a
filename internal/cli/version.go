package cli

import (
	"fmt"

	"github.com/trellis-tasks/trellis/internal/cli/command"
)

func showVersion(a *command.Console) error {
	_, err := fmt.Fprintln(a.Stdout, "trellis", command.Version())
	return err
}
