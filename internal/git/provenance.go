package git

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Provenance finds out who brought which content into the repository.
type Provenance struct{ repo *Repo }

const maxLog = 256 << 20

// ReflogEntries returns the entries of the reflogs of HEAD, in the main checkout and in the worktrees that Trellis did not make. Reflogs
// are written in this clone alone: no clone and no fetch brings any.
func (r Provenance) ReflogEntries(ctx context.Context) (list []ReflogEntry, err error) {
	if c, err := ReadConfig(r.repo.Common); err == nil && c.reftable {
		return r.reftableLog(ctx)
	}
	admins, err := filepath.Glob(filepath.Join(r.repo.Common, "worktrees", "*"))
	if err != nil {
		return nil, err
	}
	for _, admin := range append([]string{r.repo.Common}, admins...) {
		if o, err := readOwner(admin); admin != r.repo.Common && (err != nil || o != (owner{})) {
			continue // agents commit there
		}
		entries, err := readLog(admin, "HEAD")
		if err != nil {
			return nil, err
		}
		list = append(list, entries...)
	}
	return list, nil
}

// reftableLog asks git for the reflog of the main checkout, where refs are stored in a reftable.
func (r Provenance) reftableLog(ctx context.Context) (list []ReflogEntry, err error) {
	if _, err := r.repo.Refs().Head(ctx, r.repo.Main); errors.Is(err, ErrNoCommit) {
		return nil, nil
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"reflog", "show", "-z", "--format=%H%x00%gs", "HEAD", "--"}})
	if err != nil || out == "" {
		return nil, err
	}
	for e := range slices.Chunk(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), 2) {
		if len(e) == 2 {
			list = append(list, ReflogEntry{Commit: e[0], Said: e[1]})
		}
	}
	for n := range len(list) - 1 { // the newest is first
		list[n].Before = list[n+1].Commit
	}
	return list, nil
}

// readLog reads the reflog of a ref below a git directory; a missing one is not an error.
func readLog(gitDir, ref string) (list []ReflogEntry, err error) {
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
			list = append(list, ReflogEntry{Commit: f[1], Before: f[0], Said: said})
		}
	}
	return list, nil
}

// pseudoRefs lists the names, besides refs, under which git records commits.
var pseudoRefs = []string{"FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"}

// FormerCommits returns commits that may no longer be reachable from a ref: those that HEADs and remote-tracking branches were at, and
// those that were fetched or replaced last (FETCH_HEAD, ORIG_HEAD and others).
func (r Provenance) FormerCommits() (list []string, err error) {
	add := func(logs []ReflogEntry, err error) error {
		for _, l := range logs {
			list = append(list, l.Commit)
		}
		return err
	}
	admins, _ := filepath.Glob(filepath.Join(r.repo.Common, "worktrees", "*"))
	for _, admin := range append([]string{r.repo.Common}, admins...) {
		if err := add(readLog(admin, "HEAD")); err != nil {
			return nil, err
		}
		for _, name := range pseudoRefs {
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
	err = filepath.WalkDir(filepath.Join(r.repo.Common, "logs", "refs", "remotes"), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(filepath.Join(r.repo.Common, "logs"), path)
		if err != nil {
			return err
		}
		return add(readLog(r.repo.Common, rel))
	})
	slices.Sort(list)
	return slices.Compact(list), err
}

// Upstream returns the default branch of the remote as last fetched: the full name of the ref and its commit. Both are "" if
// nothing says which branch that is; fetched reports whether there are any remote-tracking branches.
func (r Provenance) Upstream(ctx context.Context) (ref, commit string, fetched bool, err error) {
	remotes, err := r.repo.Remotes().Names(ctx)
	if err != nil || len(remotes) == 0 {
		return "", "", false, err
	}
	remote := preferredRemote(remotes)
	for _, branch := range []string{"HEAD", "main", "master"} {
		ref := "refs/remotes/" + remote + "/" + branch
		commit, target, err := r.repo.Refs().readRef(ctx, r.repo.Common, ref)
		if err == nil && remote != "" {
			return target, commit, true, nil
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return "", "", false, err
		}
	}
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"for-each-ref", "--count=1", "--format=%(refname)", "refs/remotes"}})
	return "", "", out != "", err
}

// Tracked returns the ref and the commit of a branch that a person names: a remote-tracking branch (origin/main) before a local
// one, into which anybody's work may have been put. It returns ErrNotFound if neither exists.
func (r Provenance) Tracked(ctx context.Context, name string) (ref, commit string, err error) {
	for _, ref := range []string{"refs/remotes/" + name, BranchPrefix + name} {
		commit, target, err := r.repo.Refs().readRef(ctx, r.repo.Common, ref)
		if err == nil || !errors.Is(err, ErrNotFound) {
			return target, commit, err
		}
	}
	return "", "", fmt.Errorf("looking for branch %q: %w", name, ErrNotFound)
}

// Touch is a change of a path by a commit, against one of its parents: a merge has one for each parent that differs.
type Touch struct {
	Commit  string
	Parents int
	Author  string
	Date    time.Time // committer date
	Path    string
	Old     string // blobs; "" where there is no file
	New     string
}

// Reach selects commits: those reachable from Tips and not from Not. Commits that are not in the repository are ignored.
type Reach struct {
	All         bool     // also from all refs, except the stash and Trellis' own
	Tips        []string // commits
	Not         []string
	FirstParent bool
}

// args returns the arguments of git log and git rev-list, which read Tips and Not from standard input.
func (w Reach) args() []string {
	args := []string{"--ignore-missing", "--stdin"}
	if w.FirstParent {
		args = append(args, "--first-parent")
	}
	if w.All {
		args = append(args, "--exclude=refs/stash", "--exclude="+OwnPrefix+"*", "--all")
	}
	return args
}

func (w Reach) stdin() *strings.Reader {
	var b strings.Builder
	for _, tip := range w.Tips {
		fmt.Fprintln(&b, tip)
	}
	for _, not := range w.Not {
		fmt.Fprintln(&b, "^"+not)
	}
	return strings.NewReader(b.String())
}

// plainLog is the beginning of a git log command that doesn't depend on the user's settings.
var plainLog = []string{"-c", "log.follow=false", "-c", "log.showSignature=false", "--literal-pathspecs", "log"}

// Touches returns the changes to the paths, or with a blob instead the changes that added or removed that blob, at whatever path.
func (r Provenance) Touches(ctx context.Context, w Reach, blob string, paths ...string) ([]Touch, error) {
	args := slices.Concat(plainLog, w.args(), []string{"--raw", "--no-abbrev", "-z", "--no-renames", "--full-history", "--root", "--no-ext-diff", "--no-color"})
	if w.FirstParent {
		args = append(args, "--diff-merges=first-parent")
	} else {
		args = append(args, "--diff-merges=separate")
	}
	if blob != "" {
		args = append(args, "--find-object="+blob)
	}
	args = append(append(args, "--format=%x01%H%x00%P%x00%an%x00%ct%x00", "--"), paths...)
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: args, Stdin: w.stdin()})
	if err != nil {
		return nil, err
	}
	return parseTouches(out)
}

// parseTouches parses field by field, without checking what a field contains: an author's name can be anything.
func parseTouches(out string) (list []Touch, err error) {
	fields := strings.Split(out, "\x00")
	var at Touch
	for len(fields) > 0 {
		f := strings.TrimPrefix(fields[0], "\n")
		switch {
		case f == "":
			fields = fields[1:]
		case f[0] == '\x01' && len(fields) > 3:
			seconds, err := strconv.ParseInt(fields[3], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("reading git log: %w", err)
			}
			at = Touch{Commit: f[1:], Parents: len(strings.Fields(fields[1])), Author: fields[2], Date: time.Unix(seconds, 0)}
			fields = fields[4:]
		case f[0] == ':' && len(fields) > 1:
			about := strings.Fields(f)
			if len(about) != 5 {
				return nil, fmt.Errorf("reading git log: %q is not a change", f)
			}
			at.Old, at.New, at.Path = nonZeroHash(about[2]), nonZeroHash(about[3]), fields[1]
			list = append(list, at)
			fields = fields[2:]
		default:
			return nil, fmt.Errorf("reading git log: %q is neither commit nor change", f)
		}
	}
	return list, nil
}

func nonZeroHash(hash string) string {
	if strings.Trim(hash, "0") == "" {
		return ""
	}
	return hash
}

// ReflogEntry is a line of the reflog of HEAD in a checkout that is not Trellis's own: a commit that it was set to, and why.
type ReflogEntry struct {
	Commit string
	Before string // commit that HEAD was at until then
	Said   string
}

// About describes a commit.
type About struct {
	Commit  string
	Parents []string
	Author  string // name and address
	Made    int64  // author date, Unix time
	Subject string
}

// Abouts returns the commits that a Reach selects, newest first.
func (r Provenance) Abouts(ctx context.Context, w Reach) (list []About, err error) {
	args := slices.Concat(plainLog, w.args(), []string{"-z", "--no-color", "--no-decorate", "--format=%H%x00%P%x00%an <%ae>%x00%at%x00%s", "--"})
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: args, Stdin: w.stdin()})
	if err != nil || out == "" {
		return nil, err
	}
	const fields = 5
	records, err := logRecords(out, fields)
	for _, e := range records {
		made, _ := strconv.ParseInt(e[3], 10, 64) // an invalid date is 0
		list = append(list, About{e[0], strings.Fields(e[1]), e[2], made, e[4]})
	}
	return list, err
}

// BlobsAt returns the files at the paths in a commit: blobs by path.
func (r Provenance) BlobsAt(ctx context.Context, commit string, paths ...string) (map[string]string, error) {
	found := map[string]string{}
	if len(paths) == 0 {
		return found, nil
	}
	list, err := r.repo.lsTree(ctx, Command{Dir: r.repo.Main}, commit, nil, paths...)
	for _, e := range list {
		if e.mode != treeMode && e.mode != gitlinkMode {
			found[e.path] = hex.EncodeToString(e.hash)
		}
	}
	return found, err
}

// Blobs returns the contents of blobs. A blob that is not here, or is larger than max bytes, is left out; none is fetched.
func (r Provenance) Blobs(ctx context.Context, max int64, blobs ...string) (map[string][]byte, error) {
	const together = maxOutput / 4
	objects, err := r.repo.describeObjects(ctx, blobs)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for len(blobs) > 0 {
		var part []string
		for sum := int64(0); len(blobs) > 0 && sum < together; blobs = blobs[1:] {
			if o := objects[blobs[0]]; o.kind == "blob" && o.size <= max {
				part, sum = append(part, blobs[0]), sum+o.size
			}
		}
		if err := r.addContents(ctx, part, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// addContents adds the contents of blobs, all of which must be here, to the map.
func (r Provenance) addContents(ctx context.Context, blobs []string, to map[string][]byte) error {
	if len(blobs) == 0 {
		return nil
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"cat-file", "--batch"}, Env: noFetchEnv, Stdin: strings.NewReader(strings.Join(blobs, "\n") + "\n")})
	if err != nil {
		return err
	}
	for out != "" {
		head, rest, _ := strings.Cut(out, "\n")
		f := strings.Fields(head)
		if len(f) != 3 {
			return fmt.Errorf("reading git cat-file: %q", head)
		}
		size, err := strconv.Atoi(f[2])
		if err != nil || size >= len(rest) {
			return fmt.Errorf("reading git cat-file: %q", head)
		}
		to[f[0]], out = []byte(rest[:size]), rest[size+1:]
	}
	return nil
}

// Indexed returns the files at the paths in the main checkout's index: blobs by path. Paths in conflict are left out.
func (r Provenance) Indexed(ctx context.Context, paths ...string) (map[string]string, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: append([]string{"--literal-pathspecs", "ls-files", "-v", "--stage", "-z", "--"}, paths...)})
	if err != nil {
		return nil, err
	}
	list, err := parseStaged(out)
	found := map[string]string{}
	for _, e := range list {
		if !e.conflict() {
			found[e.path] = hex.EncodeToString(e.hash)
		}
	}
	return found, err
}

// Modified returns those of the paths of the main checkout that differ from its index.
func (r Provenance) Modified(ctx context.Context, paths ...string) (map[string]bool, error) {
	args := []string{"-c", "diff.ignoreSubmodules=all", "--literal-pathspecs", "diff", "--name-only", "-z", "--no-ext-diff", "--no-renames", "--no-relative", "--"}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: append(args, paths...)})
	found := map[string]bool{}
	for _, path := range splitNull(out) {
		found[path] = true
	}
	return found, err
}

// Converted returns those of the paths of the main checkout whose bytes git changes at a checkout: by a filter or an encoding.
func (r Provenance) Converted(ctx context.Context, paths ...string) (map[string]bool, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: append([]string{"check-attr", "-z", "filter", "working-tree-encoding", "--"}, paths...)})
	if err != nil || out == "" {
		return nil, err
	}
	found := map[string]bool{}
	const fields = 3
	for f := range slices.Chunk(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), fields) {
		if len(f) == fields && f[2] != "unspecified" && f[2] != "unset" {
			found[f[0]] = true
		}
	}
	return found, nil
}
