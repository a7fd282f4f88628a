package git

import (
	"context"
	"io"
)

// Diff writes the difference between two commits to w, as a patch, or with stat as text for people: one
// file a line and the sum.
func (r History) Diff(ctx context.Context, from, to string, stat bool, w io.Writer) error {
	form := "--patch"
	if stat {
		form = "--stat=100"
	}
	_, _, err := r.Run(ctx, Command{Dir: r.Main, Stdout: w, Args: []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", form, "--end-of-options", from, to}})
	return err
}
