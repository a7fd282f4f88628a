package snapshot

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/git"
)

// expandSubmodule replaces the commit of a submodule, in the private index, by the files that the submodule holds.
func (s *Snapshot) expandSubmodule(ctx context.Context, i int) error {
	m := s.submodules[i]
	dir := m.Dir(s.dir)
	index := filepath.Join(s.temp, fmt.Sprintf("inner-%d", i))
	if err := m.Index().WriteFresh(ctx, dir, index); err != nil {
		return err
	}
	env := append(s.env[:len(s.env):len(s.env)], "GIT_INDEX_FILE="+index)
	if err := m.Do(ctx, git.Command{Dir: dir, Env: env, Args: append([]string{"add", "--all", "--sparse", "--"}, git.Pathspec(m.Below(s.exclude))...)}); err != nil {
		return err
	}
	tree, err := m.Line(ctx, git.Command{Dir: dir, Env: env, Args: []string{"write-tree"}})
	if err != nil {
		return err
	}
	return s.replaceByTree(ctx, s.env, m.Path, tree)
}

// replaceByTree replaces whatever an index has at path by a tree.
func (s *Snapshot) replaceByTree(ctx context.Context, env []string, path, tree string) error {
	err := s.r.repo.Do(ctx, git.Command{Dir: s.dir, Env: env, Args: []string{"rm", "-r", "--cached", "--force", "--quiet", "--ignore-unmatch", "--sparse", "--", git.Literal(path)}})
	if err == nil {
		err = s.r.repo.Do(ctx, git.Command{Dir: s.dir, Env: env, Args: []string{"read-tree", "--prefix=" + path + "/", tree}})
	}
	return err
}

// comparisonTree returns the tree that stands for base in a comparison with the snapshot: base itself, or with submodules a tree that has
// their files in their places.
func (s *Snapshot) comparisonTree(ctx context.Context, base string) (string, error) {
	if len(s.submodules) == 0 {
		return base, nil
	}
	if tree := s.baseTrees[base]; tree != "" {
		return tree, nil
	}
	env := append(s.env[:len(s.env):len(s.env)], "GIT_INDEX_FILE="+filepath.Join(s.temp, "base"))
	if err := s.r.repo.Do(ctx, git.Command{Dir: s.dir, Env: env, Args: []string{"read-tree", base}}); err != nil {
		return "", err
	}
	for _, m := range s.submodules {
		commit, err := s.r.repo.Modules().GitlinkIn(ctx, git.Command{Dir: s.dir, Env: s.env}, base, m.Path)
		if err == nil && commit != "" { // otherwise it was not a submodule in base
			err = s.replaceByTree(ctx, env, m.Path, commit+"^{tree}")
		}
		if err != nil {
			return "", err
		}
	}
	tree, err := s.writeTree(ctx, filepath.Join(s.temp, "base"), false)
	if err != nil {
		return "", err
	}
	if s.baseTrees == nil {
		s.baseTrees = map[string]string{}
	}
	s.baseTrees[base] = tree
	return tree, nil
}
