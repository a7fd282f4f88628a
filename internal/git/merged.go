package git

import (
	"context"
	"strings"
)

// Merged reports whether base has the work between the commits from and tip: the commits themselves, their patches
// when they were rebased or picked, or all that they change in one commit when they were squashed.
func (r History) Merged(ctx context.Context, base, from, tip string) (bool, error) {
	if within, err := r.IsAncestor(ctx, tip, base); err != nil || within {
		return within, err
	}
	own, missing, err := r.cherry(ctx, base, from, tip)
	if err != nil || own == 0 || missing == 0 {
		return own > 0 && missing == 0 && err == nil, err
	}
	if own == 1 {
		return false, nil
	}
	whole, err := r.squashed(ctx, from, tip)
	if err != nil {
		return false, err
	}
	_, missing, err = r.cherry(ctx, base, from, whole)
	return missing == 0 && err == nil, err
}

// cherry counts the commits between from and tip, and those of them whose patch base has not.
func (r History) cherry(ctx context.Context, base, from, tip string) (own, missing int, err error) {
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"cherry", base, tip, from}})
	for line := range strings.Lines(out) {
		own++
		if strings.HasPrefix(line, "+") {
			missing++
		}
	}
	return own, missing, err
}

// squashed is a commit of all that lies between from and tip, always the same one. No ref names it.
func (r History) squashed(ctx context.Context, from, tip string) (string, error) {
	var env []string
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME=trellis", "GIT_"+who+"_EMAIL=trellis@localhost", "GIT_"+who+"_DATE=@0 +0000")
	}
	return r.Line(ctx, Command{Dir: r.Main, Env: env, Args: []string{"commit-tree", "--no-gpg-sign", tip + "^{tree}", "-p", from, "-m", "squashed"}})
}

// MergeBase is the best commit that is in the history of both, "" when there is none.
func (r History) MergeBase(ctx context.Context, a, b string) (string, error) {
	const none = 1
	return r.Line(ctx, Command{Dir: r.Main, Args: []string{"merge-base", "--end-of-options", a, b}, Accept: []int{none}})
}
