package cli

import (
	"cmp"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
)

// sharedHint is what to do about a repository that several machines may use.
const sharedHint = "clone the repository to a disk of this machine"

// sharedFlag is --shared-fs, of commands that hold locks while they work.
func sharedFlag() cli.Flag {
	return &cli.BoolFlag{Name: "shared-fs", Usage: "work on NFS, SMB, FUSE or 9p too: you see to it that no other machine does"}
}

// fileSystem names the kind of file system that the project is on when it is one that several machines may use, "" when
// not.
func (a *console) fileSystem(p *project) (string, error) {
	if a.SharedFS != nil {
		return a.SharedFS(p.Root)
	}
	return sharedFS(p.Root)
}

// ownDisk refuses to work where locks don't hold, unless the call says --shared-fs. What can't be told is not refused.
func (a *console) ownDisk(c *cli.Context, p *project) error {
	if kind, err := a.fileSystem(p); err == nil && kind != "" && !c.Bool("shared-fs") {
		return app.WithHints(app.Usagef("%s is on %s: locks don't hold between the machines that share it", p.Root, kind),
			sharedHint, "when no other machine works in it: "+cmp.Or(c.Command.HelpName, "trellis")+" --shared-fs")
	}
	return nil
}
