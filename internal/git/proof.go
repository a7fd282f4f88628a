package git

import (
	"context"
	"errors"
	"strings"
)

// Proof says how a base was found to have the work of a branch. "" is not at all, or not so that it shows.
type Proof string

const (
	InHistory Proof = "ancestor" // its commits themselves
	InPatches Proof = "patches"  // each of its commits, rebased or picked
	InOne     Proof = "squash"   // all that it changes, in one commit
)

// Prove says how base has the work between the commits from and tip. It is stricter than [History.Merged]: a branch
// without a commit of its own is merged nowhere, and what a merge commit of the branch may hold besides its parents
// counts. from may be "" or a commit that is gone: then it is where tip left base.
//
// Patches are compared without white space: only InHistory means that no line can be lost with the branch.
func (r History) Prove(ctx context.Context, base, from, tip string) (Proof, error) {
	if tip == from {
		return "", nil
	}
	if within, err := r.IsAncestor(ctx, tip, base); err != nil || within {
		return proven(within, InHistory), err
	}
	fork, err := r.MergeBase(ctx, base, tip)
	if err != nil || fork == "" {
		return "", err
	}
	if _, err := r.Refs().Resolve(ctx, from); from == "" || errors.Is(err, ErrNotFound) {
		from = fork
	}
	if picked, err := r.picked(ctx, base, from, tip); err != nil || picked {
		return proven(picked, InPatches), err
	}
	for _, start := range []string{from, fork} { // the branch may stand on another one, or base may have been merged into it
		if one, err := r.inOne(ctx, base, start, tip); err != nil || one {
			return proven(one, InOne), err
		}
	}
	return "", nil
}

func proven(yes bool, how Proof) Proof {
	if yes {
		return how
	}
	return ""
}

// picked reports whether base has the patch of every commit between from and tip, none of which is a merge.
func (r History) picked(ctx context.Context, base, from, tip string) (bool, error) {
	own, missing, err := r.cherry(ctx, base, from, tip)
	if err != nil || own == 0 || missing > 0 {
		return false, err
	}
	merge, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"rev-list", "--min-parents=2", "--max-count=1", "--end-of-options", tip, "^" + base, "^" + from}})
	return merge == "" && err == nil, err
}

// inOne reports whether a commit of base changes what lies between from and tip.
func (r History) inOne(ctx context.Context, base, from, tip string) (bool, error) {
	before, err := r.Refs().TreeAt(ctx, from)
	if err != nil {
		return false, err
	}
	if after, err := r.Refs().TreeAt(ctx, tip); err != nil || after == before { // nothing at all is in every base
		return false, err
	}
	whole, err := r.squashed(ctx, from, tip)
	if err != nil {
		return false, err
	}
	own, missing, err := r.cherry(ctx, base, from, whole)
	return own == 1 && missing == 0 && err == nil, err
}

// Remotes are the remote-tracking branches of a branch that this repository knows, by their full names: the one that
// it is configured to follow, and that of its name in origin.
func (r Remotes) Remotes(ctx context.Context, branch string) (list []string, err error) {
	if CheckBranchName(branch) != nil {
		return nil, nil
	}
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"for-each-ref", "--format=%(upstream)%00%(refname)", BranchPrefix + branch, "refs/remotes/origin/" + branch}})
	for line := range strings.Lines(out) {
		upstream, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if strings.HasPrefix(name, BranchPrefix) {
			name = upstream
		}
		if !strings.HasPrefix(name, "refs/remotes/") || len(list) > 0 && list[0] == name {
			continue
		}
		if _, err := r.Refs().askCommit(ctx, r.Main, name); err == nil { // git names one that was never fetched as well
			list = append(list, name)
		}
	}
	return list, err
}
