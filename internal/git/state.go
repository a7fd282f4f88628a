package git

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// WorktreeState is how a checkout looks: where HEAD is, and each file that is not as committed.
type WorktreeState struct {
	head  string
	files map[string]string
}

// StateOf is how the checkout at dir looks, the excluded paths aside. A change of the content of a file that was changed
// before shows too.
func (r Index) StateOf(ctx context.Context, dir string, exclude ...string) (l WorktreeState, err error) {
	if l.head, err = r.Refs().Head(ctx, dir); err != nil {
		return l, err
	}
	branch, err := r.Refs().CurrentBranch(ctx, dir)
	if err != nil {
		return l, err
	}
	l.head += " " + branch
	list, err := r.Status(ctx, dir, exclude...)
	l.files = make(map[string]string, len(list))
	for _, e := range list {
		state := e.Code
		if st, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(e.Path))); err == nil {
			state += fmt.Sprint(" ", st.Mode(), st.Size(), st.ModTime().UnixNano())
		}
		l.files[e.Path] = state
	}
	return l, err
}

// Since are the paths that look otherwise than before, sorted, and HEAD if that moved.
func (l WorktreeState) Since(before WorktreeState) (changed []string) {
	all := maps.Clone(l.files)
	maps.Copy(all, before.files)
	for path := range all {
		if before.files[path] != l.files[path] {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	if l.head != before.head {
		changed = append([]string{"HEAD"}, changed...)
	}
	return changed
}
