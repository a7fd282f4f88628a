package git

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Touch is a commit that changed a path, against one of its parents: a merge has as many of them as parents that differ.
type Touch struct {
	Commit  string
	Parents int
	Author  string
	Date    time.Time // of the commit, as it says itself
	Path    string
	Old     string // blobs; "" where there is no file
	New     string
}

// Reach says which commits are looked at: those that are reachable from Tips and not from Not. What is not in the repository
// is passed over.
type Reach struct {
	All         bool     // from all refs too, but the stash and what Trellis keeps
	Tips        []string // commits
	Not         []string
	FirstParent bool
}

// args are those of git log and git rev-list. Tips and Not stand on their standard input.
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

// plainly keeps the user's settings from changing what git log does.
var plainly = []string{"-c", "log.follow=false", "-c", "log.showSignature=false", "--literal-pathspecs", "log"}

// Touches are the commits that changed one of the paths, or with a blob instead those that brought it or took it away, at
// whatever path.
func (r Provenance) Touches(ctx context.Context, w Reach, blob string, paths ...string) ([]Touch, error) {
	args := slices.Concat(plainly, w.args(), []string{"--raw", "--no-abbrev", "-z", "--no-renames", "--full-history", "--root", "--no-ext-diff", "--no-color"})
	if w.FirstParent {
		args = append(args, "--diff-merges=first-parent")
	} else {
		args = append(args, "--diff-merges=separate")
	}
	if blob != "" {
		args = append(args, "--find-object="+blob)
	}
	args = append(append(args, "--format=%x01%H%x00%P%x00%an%x00%ct%x00", "--"), paths...)
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args, Stdin: w.stdin()})
	if err != nil {
		return nil, err
	}
	return parseTouches(out)
}

// parseTouches goes from field to field. What a field may hold is not looked at: an author's name can be anything.
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
				return nil, fmt.Errorf("reading git log: %q is no change", f)
			}
			at.Old, at.New, at.Path = blobOr(about[2]), blobOr(about[3]), fields[1]
			list = append(list, at)
			fields = fields[2:]
		default:
			return nil, fmt.Errorf("reading git log: %q is neither commit nor change", f)
		}
	}
	return list, nil
}

func blobOr(hash string) string {
	if strings.Trim(hash, "0") == "" {
		return ""
	}
	return hash
}

// Logged is a commit that HEAD of a person's checkout was at, and what brought it there.
type Logged struct {
	Commit string
	Before string // where it was until then
	Said   string
}

// About is who made a commit, and when.
type About struct {
	Commit  string
	Parents []string
	Author  string // name and address
	Made    int64  // by its author
	Subject string
}

// Abouts are the commits of a reach, the newest first.
func (r Provenance) Abouts(ctx context.Context, w Reach) (list []About, err error) {
	args := slices.Concat(plainly, w.args(), []string{"-z", "--no-color", "--no-decorate", "--format=%H%x00%P%x00%an <%ae>%x00%at%x00%s", "--"})
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args, Stdin: w.stdin()})
	if err != nil || out == "" {
		return nil, err
	}
	const fields = 5
	f := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if len(f)%fields != 0 {
		return nil, fmt.Errorf("reading git log: %d fields are not %d each", len(f), fields)
	}
	for e := range slices.Chunk(f, fields) {
		made, _ := strconv.ParseInt(e[3], 10, 64) // a date that is none is 0
		list = append(list, About{e[0], strings.Fields(e[1]), e[2], made, e[4]})
	}
	return list, nil
}

// BlobsAt are the files at some paths of a commit: blobs by path.
func (r Provenance) BlobsAt(ctx context.Context, commit string, paths ...string) (map[string]string, error) {
	const atOnce = 1000 // an argument list has a limit
	found := map[string]string{}
	for part := range slices.Chunk(paths, atOnce) {
		args := append([]string{"--literal-pathspecs", "ls-tree", "-z", "--full-tree", "--end-of-options", commit, "--"}, part...)
		out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args})
		if err != nil {
			return nil, err
		}
		for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
			about, path, _ := strings.Cut(entry, "\t")
			if f := strings.Fields(about); len(f) == 3 && f[1] == "blob" {
				found[path] = f[2]
			}
		}
	}
	return found, nil
}

// Blobs are the contents of blobs. One that is not here, or is larger than max bytes, is left out; none is fetched.
func (r Provenance) Blobs(ctx context.Context, max int64, blobs ...string) (map[string][]byte, error) {
	const together = maxOutput / 4
	sizes, err := r.sizes(ctx, blobs)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for len(blobs) > 0 {
		var part []string
		for sum := int64(0); len(blobs) > 0 && sum < together; blobs = blobs[1:] {
			if size, here := sizes[blobs[0]]; here && size <= max {
				part, sum = append(part, blobs[0]), sum+size
			}
		}
		if err := r.contents(ctx, part, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// unfetched has a partial clone ask nobody for what it has not.
var unfetched = []string{"GIT_NO_LAZY_FETCH=1"}

// sizes are those of the blobs that are here.
func (r Provenance) sizes(ctx context.Context, blobs []string) (map[string]int64, error) {
	sizes := map[string]int64{}
	if len(blobs) == 0 {
		return sizes, nil
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"cat-file", "--batch-check"}, Env: unfetched, Stdin: strings.NewReader(strings.Join(blobs, "\n") + "\n")})
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "blob" {
			sizes[f[0]], _ = strconv.ParseInt(f[2], 10, 64) // git's own number
		}
	}
	return sizes, err
}

// contents adds those of blobs, which are all here.
func (r Provenance) contents(ctx context.Context, blobs []string, to map[string][]byte) error {
	if len(blobs) == 0 {
		return nil
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"cat-file", "--batch"}, Env: unfetched, Stdin: strings.NewReader(strings.Join(blobs, "\n") + "\n")})
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

// Indexed are the files at some paths of the main checkout's index: blobs by path. What is in conflict is not among them.
func (r Provenance) Indexed(ctx context.Context, paths ...string) (map[string]string, error) {
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: append([]string{"--literal-pathspecs", "ls-files", "--stage", "-z", "--"}, paths...)})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		about, path, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(about); len(f) == 3 && f[2] == "0" {
			found[path] = f[1]
		}
	}
	return found, nil
}

// Modified are those of some paths of the main checkout that are not as its index has them.
func (r Provenance) Modified(ctx context.Context, paths ...string) (map[string]bool, error) {
	args := []string{"-c", "diff.ignoreSubmodules=all", "--literal-pathspecs", "diff", "--name-only", "-z", "--no-ext-diff", "--no-renames", "--no-relative", "--"}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: append(args, paths...)})
	found := map[string]bool{}
	for path := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		found[path] = path != ""
	}
	return found, err
}

// Converted are those of some paths of the main checkout that git makes other bytes of when it checks them out: by a filter, or
// in another encoding.
func (r Provenance) Converted(ctx context.Context, paths ...string) (map[string]bool, error) {
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: append([]string{"check-attr", "-z", "filter", "working-tree-encoding", "--"}, paths...)})
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
