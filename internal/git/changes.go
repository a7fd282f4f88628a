package git

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Change is a path that differs between a commit and a snapshot. A renamed file is one path deleted and one added.
type Change struct {
	Path           string
	Kind           byte // 'A' added, 'M' modified, 'D' deleted, 'T' another type of file
	Mode           string
	Added, Deleted int // lines; -1 for binary files
}

// Limits of the cache of comparisons: its size, and how many changes a cached comparison may have.
const (
	maxDiffs   = 100
	maxChanges = 1000
)

// DiffOptions holds the options of a comparison that doesn't depend on anybody's settings.
var DiffOptions = []string{"--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"}

// ParseChanges parses raw records (":100644 100644 old new M", path), followed by numstat records ("1\t2\tpath").
func ParseChanges(out string) (list []Change, err error) {
	at := map[string]int{}
	f := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	for i := 0; i < len(f); i++ {
		switch raw := strings.Fields(f[i]); {
		case f[i] == "":
		case strings.HasPrefix(f[i], ":") && len(raw) == 5 && i+1 < len(f):
			i++
			at[f[i]] = len(list)
			list = append(list, Change{Path: f[i], Kind: raw[4][0], Mode: raw[1]})
		default:
			n := strings.SplitN(f[i], "\t", 3)
			if len(n) != 3 {
				return nil, fmt.Errorf("reading git diff: unexpected %q", f[i])
			}
			if c, ok := at[n[2]]; ok {
				list[c].Added, list[c].Deleted = parseLineCount(n[0]), parseLineCount(n[1])
			}
		}
	}
	return list, nil
}

func parseLineCount(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

const gitlink = "160000"

// Submodule reports whether the path is a submodule now.
func (c Change) Submodule() bool { return c.Mode == gitlink }

// CachedChanges returns the changes between a commit and a tree: cached, or from diff, which runs git diff --raw --numstat.
func (r *Repo) CachedChanges(base, tree string, diff func() (string, error)) ([]Change, error) {
	key := base + ":" + tree
	if list, ok := r.diffs.recall(key); ok {
		return slices.Clone(list), nil
	}
	out, err := diff()
	if err != nil {
		return nil, err
	}
	list, err := ParseChanges(out)
	if err == nil && isHash(base) && len(list) <= maxChanges { // a name can mean another commit next time
		r.diffs.keep(key, slices.Clone(list), maxDiffs)
	}
	return list, err
}
