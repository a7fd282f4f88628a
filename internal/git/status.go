package git

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Entry is a path that differs between HEAD, index and work tree.
type Entry struct {
	Path string // relative to the root; an untracked folder ends in /
	Code string // git's two letters: index and work tree, "." unchanged, "??" untracked, unmerged ones with a U or the same letter twice

	Submodule bool
}

// Untracked reports whether git does not know the path.
func (e Entry) Untracked() bool { return e.Code == "??" }

// state describes the current state of the path in a checkout.
func (e Entry) state(dir string) string {
	st, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(e.Path)))
	if err != nil {
		return e.Code
	}
	return fmt.Sprint(e.Code, " ", st.Mode(), st.Size(), st.ModTime().UnixNano())
}

// parseStatus parses the output of git status --porcelain=v2 -z without renames.
func parseStatus(out string) (list []Entry, err error) {
	before := map[byte]int{'1': 8, 'u': 10} // fields in front of the path
	for _, line := range splitNull(out) {
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

// Pathspec returns a pathspec for everything in the checkout except the excluded paths and what is below them.
func Pathspec(exclude []string) []string {
	list := []string{":(top)"}
	for _, p := range exclude {
		glob := asGlob(strings.TrimSuffix(p, "/"))
		list = append(list, ":(exclude,top,glob)"+glob, ":(exclude,top,glob)"+glob+"/**")
	}
	return list
}

// asGlob returns a pattern that matches only path, but contains a wildcard: git add refuses to work if a path without one is
// ignored, even if it is excluded.
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

// Literal returns a pathspec for one path, whatever characters it has.
func Literal(path string) string {
	return ":(top,literal)" + strings.TrimRight(path, "/")
}

// WorktreeState is the state of a checkout: its HEAD, and each file that differs from HEAD.
type WorktreeState struct {
	head  string
	files map[string]string
}

// changedKeys returns the keys that have not the same value in both maps, sorted.
func changedKeys(before, now map[string]string) []string {
	all := maps.Clone(now)
	maps.Copy(all, before)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(key string) bool { return before[key] == now[key] })
}

// Since returns the paths whose state differs from before, sorted, with "HEAD" first if that moved.
func (l WorktreeState) Since(before WorktreeState) (changed []string) {
	changed = changedKeys(before.files, l.files)
	if l.head != before.head {
		changed = append([]string{"HEAD"}, changed...)
	}
	return changed
}
