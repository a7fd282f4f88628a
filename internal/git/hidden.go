package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// hidden are the paths of an index whose files are there, and which git was told not to look at.
func (r Index) hidden(ctx context.Context, dir, index string) (list []string, err error) {
	marked, err := r.marked(index)
	if errors.Is(err, errAskGit) {
		marked, err = r.askMarked(ctx, dir)
	}
	for _, path := range marked {
		if _, err := os.Lstat(filepath.Join(dir, path)); err == nil {
			list = append(list, path)
		}
	}
	return list, err
}

// marked are those with one of the two marks.
func (r Index) marked(index string) (list []string, err error) {
	_, size := r.hashes()
	entries, err := entriesOf(index, size)
	for _, e := range entries {
		if err == nil && e.hidden() {
			list = append(list, e.path)
		}
	}
	return list, err
}

// askMarked asks git, which marks such entries with a small letter, or an S.
func (r Index) askMarked(ctx context.Context, dir string) (list []string, err error) {
	out, _, err := r.Run(ctx, Command{Dir: dir, Args: []string{"ls-files", "-v", "-z"}})
	for line := range strings.SplitSeq(out, "\x00") {
		if tag, path, ok := strings.Cut(line, " "); ok && (tag == "S" || tag != strings.ToUpper(tag)) {
			list = append(list, path)
		}
	}
	return list, err
}

func (r Index) updateIndex(ctx context.Context, dir, option string, paths []string) error {
	_, _, err := r.Run(ctx, Command{Dir: dir, Write: true, Args: []string{"update-index", option, "-z", "--stdin"}, Stdin: strings.NewReader(strings.Join(paths, "\x00") + "\x00")})
	return err
}
