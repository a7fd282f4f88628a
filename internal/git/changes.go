package git

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// Change is a path that differs between a commit and a snapshot. A renamed file is one path deleted and
// one added.
type Change struct {
	Path           string
	Kind           byte // 'A' added, 'M' modified, 'D' deleted, 'T' another type of file
	Mode           string
	Added, Deleted int // lines; -1 for binary files
}

// Changes are the paths at which the snapshot differs from a commit, sorted.
func (s *Snapshot) Changes(ctx context.Context, base string) ([]Change, error) {
	if list, ok := s.r.diffs.recall(base, s.Tree); ok {
		return list, nil
	}
	out, err := s.against(ctx, base, nil, "-z", "--raw", "--numstat")
	if err != nil {
		return nil, err
	}
	list, err := parseChanges(out)
	if err == nil {
		s.r.diffs.keep(base, s.Tree, list)
	}
	return list, err
}

// against compares the snapshot with a commit or a tree.
func (s *Snapshot) against(ctx context.Context, base string, out io.Writer, options ...string) (string, error) {
	base, err := s.whole(ctx, base)
	if err != nil {
		return "", err
	}
	args := slices.Concat([]string{"diff-index", "--cached"}, plain, options, []string{base})
	if s.held != s.Tree {
		if err := s.store(ctx); err != nil {
			return "", err
		}
		args = slices.Concat([]string{"diff-tree", "-r"}, plain, options, []string{base, s.Tree})
	}
	text, _, err := s.r.Run(ctx, Command{Dir: s.dir, Env: s.env, Stdout: out, Args: args})
	return text, err
}

// plain makes a comparison depend on no one's settings.
var plain = []string{"--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"}

// parseChanges reads raw records (":100644 100644 old new M", path) and after them numstat's ("1\t2\tpath").
func parseChanges(out string) (list []Change, err error) {
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
				list[c].Added, list[c].Deleted = count(n[0]), count(n[1])
			}
		}
	}
	return list, nil
}

func count(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// DiffStat is the difference to a commit as text for people, one file a line and the sum.
func (s *Snapshot) DiffStat(ctx context.Context, base string) (string, error) {
	return s.against(ctx, base, nil, "--stat=100")
}

// Diff is the difference to a commit as a patch, cut in the middle when it has more bytes than limit.
func (s *Snapshot) Diff(ctx context.Context, base string, limit int) (string, error) {
	var out *proc.Capped
	err := Retry(ctx, func() error {
		out = proc.NewCapped(limit)
		_, err := s.against(ctx, base, out, "--patch")
		return err
	})
	return out.String(), err
}
