package git

import (
	"context"
	"errors"
	"fmt"
)

// BackupFolder saves a folder of the main checkout as it is, committed or not, ignored or not, as a commit that ref
// names; without what stands below except, paths within the folder. What ref named before is in its history.
func (r Backups) BackupFolder(ctx context.Context, folder, ref, message string, except ...string) (sha string, err error) {
	s := &Snapshot{r: r.Repo, dir: r.Main}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err = s.prepare(); err == nil { // with an index of the folder alone
		sha, err = s.saveFolder(ctx, folder, ref, message, except)
	}
	if err != nil {
		return "", fmt.Errorf("saving %s as %s: %w", folder, ref, err)
	}
	return sha, nil
}

func (s *Snapshot) saveFolder(ctx context.Context, folder, ref, message string, except []string) (string, error) {
	args := []string{"add", "--all", "--force", "--", ":(top,literal)" + folder}
	for _, path := range except {
		args = append(args, ":(top,exclude,literal)"+folder+"/"+path)
	}
	if _, _, err := s.r.Run(ctx, Command{Dir: s.dir, Env: s.env, Args: args, Write: true}); err != nil {
		return "", err
	}
	tree, err := s.treeIn(ctx, s.index(), true)
	if err != nil {
		return "", err
	}
	old, err := s.r.Refs().askCommit(ctx, s.dir, ref)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	if saved, err := s.r.Refs().TreeAt(ctx, old); old != "" && err == nil && saved == tree {
		return old, nil
	}
	sha, err := s.commit(ctx, tree, message, old)
	if err != nil {
		return "", err
	}
	return sha, s.r.Refs().MoveRef(ctx, ref, sha, old)
}
