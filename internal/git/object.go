package git

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
)

// loose reads the tree and the parents of a commit that lies in a file of its own, as those do that were made lately.
// errAskGit for all others.
func (r History) loose(commit string) (tree string, parents []string, err error) {
	const long = 1 << 20
	if c, err := ReadConfig(r.Common); err != nil || c.extended || !isHash(commit) {
		return "", nil, errAskGit
	}
	f, err := os.Open(filepath.Join(r.Common, "objects", commit[:2], commit[2:]))
	if err != nil {
		return "", nil, errAskGit
	}
	defer f.Close()
	in, err := objfile.NewReader(f)
	if err != nil {
		return "", nil, errAskGit
	}
	defer in.Close()
	kind, size, err := in.Header()
	if err != nil || kind != plumbing.CommitObject || size > long {
		return "", nil, errAskGit
	}
	text, err := io.ReadAll(in)
	if err != nil || plumbing.ComputeHash(kind, text).String() != commit {
		return "", nil, errAskGit
	}
	head, _, _ := strings.Cut(string(text), "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		switch key, value, _ := strings.Cut(line, " "); key {
		case "tree":
			tree = value
		case "parent":
			parents = append(parents, value)
		}
	}
	return tree, parents, nil
}

// single reports whether a commit is no merge.
func (r History) single(ctx context.Context, dir, commit string) (bool, error) {
	if _, parents, err := r.loose(commit); err == nil {
		return len(parents) < 2, nil
	}
	_, err := r.Refs().RevParse(ctx, dir, commit+"^2")
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	return false, err
}

// near reports whether old is among the last commits of tip, one parent each. That it is not is no answer.
func (r History) near(old, tip string) bool {
	const far = 10
	for range far {
		if tip == old {
			return true
		}
		_, parents, err := r.loose(tip)
		if err != nil || len(parents) != 1 {
			return false
		}
		tip = parents[0]
	}
	return false
}
