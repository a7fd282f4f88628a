package git

import (
	"context"
	"fmt"
	"strings"
)

// Entry is a path that differs between HEAD, index and work tree.
type Entry struct {
	Path string // relative to the root; an untracked folder ends in /
	Code string // git's two letters: index and work tree, "." unchanged, "??" untracked, unmerged ones with a U or the same letter twice

	submodule bool
}

// untracked reports whether git does not know the path.
func (e Entry) untracked() bool { return e.Code == "??" }

// Status is what is not committed in a checkout, ignored files and the excluded paths left out. The tree is
// clean when it is empty.
func (r Index) Status(ctx context.Context, dir string, exclude ...string) ([]Entry, error) {
	return r.statusOf(ctx, dir, pathspec(exclude))
}

func (r Index) statusOf(ctx context.Context, dir string, pathspec []string) ([]Entry, error) {
	args := append([]string{"status", "--porcelain=v2", "-z", "--untracked-files=normal", "--ignore-submodules=none", "--no-renames", "--"}, pathspec...)
	if _, err := r.gitDir(dir); err != nil {
		return nil, err
	}
	out, _, err := r.Run(ctx, Command{Dir: dir, Args: args})
	if err != nil {
		return nil, err
	}
	return parseStatus(out)
}

// parseStatus reads porcelain v2 with -z, renames off.
func parseStatus(out string) (list []Entry, err error) {
	before := map[byte]int{'1': 8, 'u': 10} // fields in front of the path
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if line == "" {
			continue
		}
		if path, ok := strings.CutPrefix(line, "? "); ok {
			list = append(list, Entry{Path: path, Code: "??"})
			continue
		}
		n := before[line[0]]
		f := strings.SplitN(line, " ", n+1)
		if n == 0 || len(f) != n+1 {
			return nil, fmt.Errorf("reading git status: unexpected %q", line)
		}
		list = append(list, Entry{f[n], f[1], f[2][0] == 'S'})
	}
	return list, nil
}

// pathspec is everything in the checkout but the excluded paths, folders with all in them.
func pathspec(exclude []string) []string {
	list := []string{":(top)"}
	for _, p := range exclude {
		glob := asGlob(strings.TrimSuffix(p, "/"))
		list = append(list, ":(exclude,top,glob)"+glob, ":(exclude,top,glob)"+glob+"/**")
	}
	return list
}

// asGlob is a pattern that matches path alone. It has a wildcard all the same: git add refuses to work when a
// path without one is ignored, even if it is to be left out.
func asGlob(path string) string {
	var b strings.Builder
	open := true
	for _, c := range []byte(path) {
		switch {
		case strings.IndexByte(`*?[\`, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		case open && c != '/' && c < 0x80 && c != '!' && c != '^' && c != ']' && c != '-':
			open = false
			b.WriteString("[" + string(rune(c)) + "]")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// literal is a pathspec for one path whatever characters it has.
func literal(magic, path string) string {
	return ":(" + magic + "top,literal)" + strings.TrimRight(path, "/")
}
