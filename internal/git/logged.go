package git

import (
	"context"
	"crypto/sha1" // which git names blobs by
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const maxLog = 256 << 20

// Logged are the commits that HEAD of the main checkout and of the worktrees that Trellis did not make was set to, as the
// reflogs say. Those are written here alone: no clone and no fetch brings any.
func (r Provenance) Logged(ctx context.Context) (list []Logged, err error) {
	if c, err := ReadConfig(r.Common); err == nil && c.tabled {
		return r.loggedTable(ctx)
	}
	admins, err := filepath.Glob(filepath.Join(r.Common, "worktrees", "*"))
	if err != nil {
		return nil, err
	}
	for _, admin := range append([]string{r.Common}, admins...) {
		if o, err := readOwner(admin); admin != r.Common && (err != nil || o != (owner{})) {
			continue // agents commit there
		}
		said, err := readLog(admin, "HEAD")
		if err != nil {
			return nil, err
		}
		list = append(list, said...)
	}
	return list, nil
}

// loggedTable asks git for the log of the main checkout, where refs are not kept in files.
func (r Provenance) loggedTable(ctx context.Context) (list []Logged, err error) {
	if _, err := r.Refs().Head(ctx, r.Main); errors.Is(err, ErrNoCommit) {
		return nil, nil
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"reflog", "show", "-z", "--format=%H%x00%gs", "HEAD", "--"}})
	if err != nil || out == "" {
		return nil, err
	}
	for e := range slices.Chunk(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), 2) {
		if len(e) == 2 {
			list = append(list, Logged{Commit: e[0], Said: e[1]})
		}
	}
	for n := range len(list) - 1 { // the newest is first
		list[n].Before = list[n+1].Commit
	}
	return list, nil
}

// readLog reads the log of a ref below a git directory; none is no error.
func readLog(gitDir, ref string) (list []Logged, err error) {
	data, err := durable.ReadBelow(filepath.Join(gitDir, "logs"), filepath.FromSlash(ref), maxLog)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", ref, err)
	}
	for line := range strings.Lines(string(data)) {
		about, said, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if f := strings.Fields(about); len(f) > 2 && isHash(f[1]) && strings.Trim(f[1], "0") != "" {
			list = append(list, Logged{Commit: f[1], Before: f[0], Said: said})
		}
	}
	return list, nil
}

// passing are the names of commits that git writes down besides refs.
var passing = []string{"FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"}

// Passed are commits that no ref may lead to any more: those that HEADs and branches of remotes were at, and that were
// fetched last.
func (r Provenance) Passed() (list []string, err error) {
	add := func(logs []Logged, err error) error {
		for _, l := range logs {
			list = append(list, l.Commit)
		}
		return err
	}
	admins, _ := filepath.Glob(filepath.Join(r.Common, "worktrees", "*"))
	for _, admin := range append([]string{r.Common}, admins...) {
		if err := add(readLog(admin, "HEAD")); err != nil {
			return nil, err
		}
		for _, name := range passing {
			data, err := durable.ReadBelow(admin, name, maxLog)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("looking for what was fetched: %w", err)
			}
			for line := range strings.Lines(string(data)) {
				if f := strings.Fields(line); len(f) > 0 && isHash(f[0]) {
					list = append(list, f[0])
				}
			}
		}
	}
	err = filepath.WalkDir(filepath.Join(r.Common, "logs", "refs", "remotes"), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(filepath.Join(r.Common, "logs"), path)
		if err != nil {
			return err
		}
		return add(readLog(r.Common, rel))
	})
	slices.Sort(list)
	return slices.Compact(list), err
}

// BlobID is what git would call a file with that content, in a repository whose hashes are as long as like.
func BlobID(data []byte, like string) string {
	h := sha1.New()
	if len(like) == hex.EncodedLen(sha256.Size) {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Upstream is the default branch of the remote as it was last fetched: the full name of the ref and its commit. They are ""
// when nothing says which branch that is; fetched reports whether there are branches of remotes at all.
func (r Provenance) Upstream(ctx context.Context) (ref, commit string, fetched bool, err error) {
	remotes, err := r.remotes(ctx)
	if err != nil || len(remotes) == 0 {
		return "", "", false, err
	}
	remote := remotes[0]
	if slices.Contains(remotes, "origin") {
		remote = "origin"
	} else if len(remotes) > 1 {
		remote = ""
	}
	for _, branch := range []string{"HEAD", "main", "master"} {
		ref := "refs/remotes/" + remote + "/" + branch
		commit, target, err := r.resolveRef(ctx, ref)
		if err == nil && remote != "" {
			return target, commit, true, nil
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return "", "", false, err
		}
	}
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"for-each-ref", "--count=1", "--format=%(refname)", "refs/remotes"}})
	return "", "", out != "", err
}

// remotes are the names of the remotes in the repository's own settings.
func (r Provenance) remotes(ctx context.Context) ([]string, error) {
	if c, err := ReadConfig(r.Common); err == nil && len(c.includes) == 0 {
		return c.remotes, nil
	}
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"remote"}})
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// Tracked is the commit of a branch that a person names: that of a remote (origin/main) before a local one, which anybody's
// branch may have become. ErrNotFound when there is neither.
func (r Provenance) Tracked(ctx context.Context, name string) (ref, commit string, err error) {
	for _, ref := range []string{"refs/remotes/" + name, BranchPrefix + name} {
		commit, target, err := r.resolveRef(ctx, ref)
		if err == nil || !errors.Is(err, ErrNotFound) {
			return target, commit, err
		}
	}
	return "", "", fmt.Errorf("looking for branch %q: %w", name, ErrNotFound)
}

// resolveRef is the commit of a full name, and the last name on the way to it.
func (r Provenance) resolveRef(ctx context.Context, ref string) (commit, target string, err error) {
	commit, target, err = r.Refs().readRef(r.Common, ref)
	if errors.Is(err, errAskGit) {
		commit, err = r.Refs().askCommit(ctx, r.Main, ref)
		target = ref
	}
	return commit, target, err
}
