package command

import (
	"cmp"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// SharedHint is what to do about a repository that several machines may use.
const SharedHint = "clone the repository to a disk of this machine"

// FileSystem returns the kind of file system that the project is on if several machines may use it,
// and "" otherwise.
func (c *Console) FileSystem(root string) (string, error) {
	if c.SharedFS != nil {
		return c.SharedFS(root)
	}
	return durable.SharedFS(root)
}

// RefuseSharedDisk returns an error where locks don't hold, unless --shared-fs is given or the kind of file system is unknown.
func (c *Console) RefuseSharedDisk(call *cli.Context, root string) error {
	if kind, err := c.FileSystem(root); err == nil && kind != "" && !call.Bool("shared-fs") {
		return app.WithHints(app.Usagef("%s is on %s: locks don't hold between the machines that share it", root, kind),
			SharedHint, "when no other machine works in it: "+cmp.Or(call.Command.HelpName, "trellis")+" --shared-fs")
	}
	return nil
}
