// Command trellis turns a requirement into a reviewed git branch.
package main

import (
	"os"

	"github.com/trellis-tasks/trellis/internal/cli"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

func main() {
	if code, entered := sandbox.RunEntrance(os.Args[1:]); entered {
		os.Exit(code)
	}
	os.Exit(cli.Main())
}
