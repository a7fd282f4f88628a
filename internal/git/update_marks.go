package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Subjects are the newest commits that tip has and other has not, a line each: who made it and what it says.
func (r *Repo) Subjects(ctx context.Context, other, tip string, most int) (string, error) {
	return r.line(ctx, call{dir: r.Main, args: []string{"log", "--no-show-signature", "--no-merges", "--max-count=" + strconv.Itoa(most), "--format=%h %an: %s", "--end-of-options", tip, "^" + other, "--"}})
}

// Marked are those of the files of a checkout that hold marks of a conflict: lines that look like one, and that no file of
// that path has in one of the commits.
func (r *Repo) Marked(ctx context.Context, dir string, files []string, commits ...string) (left []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for conflicts: %w", err)
	}
	defer root.Close()
	known := map[string]bool{}
	for _, c := range commits {
		texts, err := r.Read(ctx, c, files...)
		if err != nil {
			return nil, err
		}
		for path, text := range texts {
			for line := range strings.Lines(text) {
				known[path+"\x00"+strings.TrimRight(line, "\r\n")] = true
			}
		}
	}
	for _, path := range files {
		text, err := readIn(root, path)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\r\n"); isMark(line) && !known[path+"\x00"+line] {
				left = append(left, path)
				break
			}
		}
	}
	return left, nil
}

// readIn is the text of a file below root, "" when it is gone or none.
func readIn(root *os.Root, path string) (string, error) {
	st, err := root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	f, err := root.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}

func isMark(line string) bool {
	const width = 7
	if len(line) < width || strings.Count(line[:width], line[:1]) != width {
		return false
	}
	switch line[0] {
	case '<', '|', '>':
		return len(line) > width && line[width] == ' '
	case '=':
		return len(line) == width
	}
	return false
}
