package command

import (
	"cmp"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// SharedHint is what to do about a repository that several machines may use.
const SharedHint = "clone the repository to a disk of this machine"

// FileSystem names the kind of file system that the project is on when it is one that several machines may use, "" when
// not.
func (c *Console) FileSystem(root string) (string, error) {
	if c.SharedFS != nil {
		return c.SharedFS(root)
	}
	return durable.SharedFS(root)
}

// RefuseSharedDisk refuses to work where locks don't hold, unless the call says --shared-fs. What can't be told is not refused.
func (c *Console) RefuseSharedDisk(call *cli.Context, root string) error {
	if kind, err := c.FileSystem(root); err == nil && kind != "" && !call.Bool("shared-fs") {
		return app.WithHints(app.Usagef("%s is on %s: locks don't hold between the machines that share it", root, kind),
			SharedHint, "when no other machine works in it: "+cmp.Or(call.Command.HelpName, "trellis")+" --shared-fs")
	}
	return nil
}
