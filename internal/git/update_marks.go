package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Subjects are the newest commits that tip has and other has not, a line each: who made it and what it says.
func (r History) Subjects(ctx context.Context, other, tip string, most int) (string, error) {
	return r.Line(ctx, Command{Dir: r.Main, Args: []string{"log", "--no-show-signature", "--no-merges", "--max-count=" + strconv.Itoa(most), "--format=%h %an: %s", "--end-of-options", tip, "^" + other, "--"}})
}

// Marked are those of the files of a checkout that hold marks of a conflict: lines that look like one, and that no file of
// that path has in one of the commits.
func (r History) Marked(ctx context.Context, dir string, files []string, commits ...string) (left []string, err error) {
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
		text, err := readIn(dir, path)
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

// maxMarked is the largest file in which marks are looked for: git itself merges no larger one line by line.
const maxMarked = 512 << 20

// readIn is the text of a file below dir, "" when it is gone, or no file of its own.
func readIn(dir, path string) (string, error) {
	st, err := os.Lstat(filepath.Join(dir, path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	data, err := durable.ReadBelow(dir, path, maxMarked)
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
