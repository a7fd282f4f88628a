package git

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Joined is a commit that has two others in its history: that of them which has the other one, else a merge of both, by the
// user's identity, which no branch has. What both change in different ways is a *ConflictError. ErrOldGit when git can't tell.
func (r Updater) Joined(ctx context.Context, ours, theirs, message string) (string, error) {
	for _, two := range [][2]string{{ours, theirs}, {theirs, ours}} {
		if within, err := r.History().IsAncestor(ctx, two[0], two[1]); err != nil || within {
			return two[1], err
		}
	}
	m, err := r.merging(ctx, ours, theirs)
	if err != nil {
		return "", err
	}
	if m.conflicts() {
		return "", m.conflict("the branch here", "what was pushed")
	}
	signed, err := r.signs(ctx)
	if err != nil {
		return "", err
	}
	args := append(slices.Clone(named), "commit-tree", m.tree, "-p", ours, "-p", theirs)
	if signed {
		args = append(args, "-S")
	}
	sha, err := r.Line(ctx, Command{Dir: r.Main, Args: args, Stdin: strings.NewReader(message + "\n"), Write: true})
	if err != nil {
		return "", fmt.Errorf("merging %.12s and %.12s: %w", ours, theirs, err)
	}
	return sha, nil
}

// Pushed reports whether a commit is remembered as one that was pushed for whose.
func (r Remotes) Pushed(ctx context.Context, whose, commit string) (bool, error) {
	_, err := r.Refs().RevParse(ctx, r.Main, pushedRefs+whose+"/"+commit)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Builds reports whether a commit has one in its history that was pushed for whose.
func (r History) Builds(ctx context.Context, whose, commit string) (bool, error) {
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"for-each-ref", "--format=%(objectname)", pushedRefs + whose + "/"}})
	if err != nil {
		return false, err
	}
	for sha := range strings.FieldsSeq(out) {
		if within, err := r.IsAncestor(ctx, sha, commit); err != nil || within {
			return within, err
		}
	}
	return false, nil
}

// Authors are those who made the commits that tip has and other has not, the one of the newest first, and how many commits
// these are. What a merge brought along is left out.
func (r History) Authors(ctx context.Context, other, tip string) (names []string, commits int, err error) {
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"log", "--no-show-signature", "--first-parent", "--format=%an", "--end-of-options", tip, "^" + other, "--"}})
	for name := range strings.Lines(out) {
		commits++
		if name = strings.TrimSpace(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, commits, err
}
