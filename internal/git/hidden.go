package git

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// hidden are the paths of an index whose files are there, and which git was told not to look at.
func (r *Repo) hidden(ctx context.Context, dir, index string) (list []string, err error) {
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

// marked reads an index of version 2 or 3, as readIndex does, for entries with one of the two marks.
func (r *Repo) marked(index string) (list []string, err error) {
	data, err := os.ReadFile(index)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	const header, trailer, flagsAt = 12, 20, 60
	if err != nil || len(data) < header+trailer || string(data[:4]) != "DIRC" {
		return nil, errAskGit
	}
	c, err := readConfig(r.Common)
	if v := binary.BigEndian.Uint32(data[4:]); err != nil || c.extended || v != 2 && v != 3 {
		return nil, errAskGit
	}
	count := binary.BigEndian.Uint32(data[8:])
	data = data[header : len(data)-trailer]
	for range count {
		e, size := indexEntry(data)
		if size == 0 {
			return nil, errAskGit
		}
		const unchanged, extended, skip = 1 << 15, 1 << 14, 1 << 14
		flags := binary.BigEndian.Uint16(data[flagsAt:])
		if flags&unchanged != 0 || flags&extended != 0 && binary.BigEndian.Uint16(data[flagsAt+2:])&skip != 0 {
			list = append(list, e.path)
		}
		data = data[size:]
	}
	return list, nil
}

// askMarked asks git, which marks such entries with a small letter, or an S.
func (r *Repo) askMarked(ctx context.Context, dir string) (list []string, err error) {
	out, _, err := r.git(ctx, call{dir: dir, args: []string{"ls-files", "-v", "-z"}})
	for line := range strings.SplitSeq(out, "\x00") {
		if tag, path, ok := strings.Cut(line, " "); ok && (tag == "S" || tag != strings.ToUpper(tag)) {
			list = append(list, path)
		}
	}
	return list, err
}

func (r *Repo) updateIndex(ctx context.Context, dir, option string, paths []string) error {
	_, _, err := r.git(ctx, call{dir: dir, write: true, args: []string{"update-index", option, "-z", "--stdin"}, stdin: strings.NewReader(strings.Join(paths, "\x00") + "\x00")})
	return err
}
