package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// History reads what commits contain, and how they follow each other.
type History struct{ repo *Repo }

// FindTrailer returns the newest commit in base..tip that has the trailer ("Key: value"), "" if there is none. With an empty base
// it may have to read a long history.
func (r History) FindTrailer(ctx context.Context, base, tip, trailer string) (string, error) {
	if tip == base {
		return "", nil // git would take some milliseconds to say the same
	}
	args := []string{"log", "-z", "--no-show-signature", "--format=%H%x00%(trailers:only,unfold)", "--fixed-strings", "--grep=" + trailer, "--end-of-options", tip}
	if base != "" {
		args = append(args, "^"+base)
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: append(args, "--")})
	if err != nil || out == "" {
		return "", err
	}
	const fields = 2
	records, err := logRecords(out, fields)
	for _, e := range records {
		if slices.Contains(strings.Split(strings.TrimSpace(e[1]), "\n"), trailer) {
			return e[0], nil
		}
	}
	return "", err
}

// logRecords splits the output of git log -z into commits with the given number of fields.
func logRecords(out string, fields int) ([][]string, error) {
	f := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if len(f)%fields != 0 {
		return nil, fmt.Errorf("reading git log: %d fields are not %d each", len(f), fields)
	}
	return slices.Collect(slices.Chunk(f, fields)), nil
}

// FindMessage returns the newest commit in base..tip whose message has a line that ends in the text; "" when there is none.
func (r History) FindMessage(ctx context.Context, base, tip, text string) (string, error) {
	pattern := regexp.QuoteMeta(text) + "[[:space:]]*$"
	return r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"rev-list", "--max-count=1", "--extended-regexp", "--grep=" + pattern, "--end-of-options", tip, "^" + base, "--"}})
}

// Ahead returns the number of commits in other..tip.
func (r History) Ahead(ctx context.Context, other, tip string) (int, error) {
	return r.count(ctx, "--end-of-options", tip, "^"+other, "--")
}

func (r History) count(ctx context.Context, args ...string) (int, error) {
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: append([]string{"rev-list", "--count"}, args...)})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// IsAncestor reports whether commit old is commit tip or in its history.
func (r History) IsAncestor(ctx context.Context, old, tip string) (bool, error) {
	if r.isRecentAncestor(old, tip) {
		return true, nil
	}
	_, code, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"merge-base", "--is-ancestor", "--end-of-options", old, tip}, Accept: []int{1}})
	return code == 0 && err == nil, err
}

// AddedLines calls each with every hunk of lines that the index of a checkout adds to the commit from. With to, the hunks are
// those that commit to adds to from, or to its first parent if from is "". At most most bytes of a file are passed on. Submodules
// are left out.
func (r History) AddedLines(ctx context.Context, dir, from, to string, most int, each func(Hunk)) error {
	args := slices.Concat([]string{"-c", "core.quotePath=false", "diff-index", "--cached"}, patchOptions, []string{"--end-of-options", from, "--"})
	switch {
	case from == "":
		args = slices.Concat([]string{"-c", "core.quotePath=false", "diff-tree", "-r", "--root", "--no-commit-id", "--diff-merges=first-parent"}, patchOptions, []string{"--end-of-options", to, "--"})
	case to != "":
		args = slices.Concat([]string{"-c", "core.quotePath=false", "diff-tree", "-r"}, patchOptions, []string{"--end-of-options", from, to, "--"})
	}
	p := &patchParser{each: each, maxBytes: most}
	err := r.repo.Do(ctx, Command{Dir: dir, Args: args, Stdout: p})
	p.end()
	if err == nil {
		err = p.err
	}
	if err != nil {
		return fmt.Errorf("reading what is added in %s: %w", dir, err)
	}
	return nil
}

// TextsAt returns which of the texts occur in a file of a commit. Texts of several lines are never found.
func (r History) TextsAt(ctx context.Context, commit string, texts []string) (map[string]bool, error) {
	held := map[string]bool{}
	if len(texts) == 0 {
		return held, nil
	}
	const none = 1
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Stdin: strings.NewReader(strings.Join(texts, "\n") + "\n"), Accept: []int{none}, Args: []string{"grep", "--text", "-h",
		"--no-line-number", "--no-column", "--no-color", "--no-recurse-submodules", "--only-matching", "--fixed-strings", "-f", "-", commit}})
	for line := range strings.Lines(out) {
		held[strings.TrimSuffix(line, "\n")] = true
	}
	return held, err
}

// Between returns the commits that tip has and that neither base nor the branch also, if it exists, has; newest first.
func (r History) Between(ctx context.Context, base, also, tip string) ([]string, error) {
	args := []string{"rev-list", "--end-of-options", tip, "^" + base}
	if sha, err := r.repo.Refs().Branch(ctx, also); err == nil && sha != "" {
		args = append(args, "^"+sha)
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: args})
	return strings.Fields(out), err
}

// Messages returns the messages of commits, by commit.
func (r History) Messages(ctx context.Context, commits []string) (map[string]string, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	const begin, end = "commit ", "\x00\n"
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Stdin: strings.NewReader(strings.Join(commits, "\n") + "\n"), Args: []string{"rev-list", "--no-walk", "--stdin", "--format=%B%x00"}})
	messages := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimSuffix(out, end), end) {
		sha, text, _ := strings.Cut(strings.TrimPrefix(part, begin), "\n")
		messages[sha] = text
	}
	return messages, err
}

// Touched returns the files at or below the paths that one of the commits itself changes: changes that a merge only brings along
// don't count.
func (r History) Touched(ctx context.Context, commits, paths []string) ([]string, error) {
	if len(commits) == 0 || len(paths) == 0 {
		return nil, nil
	}
	args := []string{"diff-tree", "--stdin", "--root", "-r", "-c", "-z", "--no-commit-id", "--name-only", "--no-renames", "--no-ext-diff", "--"}
	for _, p := range paths {
		args = append(args, Literal(p))
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Stdin: strings.NewReader(strings.Join(commits, "\n") + "\n"), Args: args})
	list := splitNull(out)
	slices.Sort(list)
	return slices.Compact(list), err
}

// Read returns the texts of those of the files that a commit has, by path.
func (r History) Read(ctx context.Context, commit string, paths ...string) (map[string]string, error) {
	texts := map[string]string{}
	there, err := r.FilesAt(ctx, commit, paths)
	for path := range there {
		if err != nil {
			break
		}
		texts[path], _, err = r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"cat-file", "blob", commit + ":" + path}})
	}
	return texts, err
}

// HasTreeAndParent reports whether a commit has this tree and only this parent. False may also mean that it is unknown.
func (r History) HasTreeAndParent(commit, parent, tree string) bool {
	got, parents, err := r.repo.looseCommit(commit)
	return err == nil && got == tree && slices.Equal(parents, []string{parent})
}

// ChangesBetween returns the paths at which two commits differ, sorted.
func (r History) ChangesBetween(ctx context.Context, old, new string) ([]Change, error) {
	args := slices.Concat([]string{"diff-tree", "-r", "-z", "--raw", "--numstat"}, DiffOptions, []string{"--end-of-options", old, new})
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: args})
	if err != nil {
		return nil, err
	}
	return ParseChanges(out)
}

// Tracks reports whether the index of the main checkout has the path rel, or a path below it.
func (r History) Tracks(ctx context.Context, rel string) (bool, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"ls-files", "-z", "--", Literal(filepath.ToSlash(rel))}})
	return out != "", err
}

// Diff writes the difference between two commits to w, as a patch, or with stat as text for people: a line per file and the sum.
func (r History) Diff(ctx context.Context, from, to string, stat bool, w io.Writer) error {
	form := "--patch"
	if stat {
		form = "--stat=100"
	}
	return r.repo.Do(ctx, Command{Dir: r.repo.Main, Stdout: w, Args: []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", form, "--end-of-options", from, to}})
}

// FilesAt returns which of the paths, files or folders, exist in a commit. Paths are relative to the root.
func (r History) FilesAt(ctx context.Context, commit string, paths []string) (map[string]bool, error) {
	const most = 10_000 // cached answers
	found, unknown := map[string]bool{}, map[string]string{}
	for _, p := range paths {
		there, known := r.repo.pathExists.recall(commit + ":" + p)
		if name := strings.TrimRight(p, "/"); !known && name != "" { // git would match everything with ""
			unknown[p] = name
		}
		if there {
			found[p] = true
		}
	}
	if len(unknown) == 0 {
		return found, nil
	}
	list, err := r.repo.lsTree(ctx, Command{Dir: r.repo.Main}, commit, []string{"-t"}, slices.Sorted(maps.Values(unknown))...)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, e := range list {
		there[e.path] = true
	}
	for p, name := range unknown {
		if there[name] {
			found[p] = true
		}
		if isHash(commit) { // a name can mean another commit next time
			r.repo.pathExists.keep(commit+":"+p, there[name], most)
		}
	}
	return found, nil
}

// Files returns the paths in a checkout that git tracks or would add, without ignored ones. A file that was removed but is still
// tracked may be among them.
func (r History) Files(ctx context.Context, dir string) ([]string, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Args: []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"}})
	return splitNull(out), err
}

// ContainsPushed reports whether a commit has one in its history that was pushed for whose.
func (r History) ContainsPushed(ctx context.Context, whose, commit string) (bool, error) {
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"for-each-ref", "--format=%(objectname)", pushedRefs + whose + "/"}})
	if err != nil {
		return false, err
	}
	for sha := range strings.FieldsSeq(out) {
		if within, err := r.IsAncestor(ctx, sha, commit); err != nil || within {
			return within, err
		}
	}
	return false, nil
}

// Authors returns the authors of the commits in other..tip, that of the newest first, and the number of these commits. Commits
// that a merge brought along are left out.
func (r History) Authors(ctx context.Context, other, tip string) (names []string, commits int, err error) {
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"log", "--no-show-signature", "--first-parent", "--format=%an", "--end-of-options", tip, "^" + other, "--"}})
	for name := range strings.Lines(out) {
		commits++
		if name = strings.TrimSpace(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, commits, err
}

// CountUnreferenced counts the commits in the history of a commit that are in no branch, remote-tracking branch or tag.
func (r History) CountUnreferenced(ctx context.Context, commit string) (int, error) {
	return r.count(ctx, commit, "--not", "--branches", "--remotes", "--tags")
}

// Merged reports whether base has the work of from..tip: the commits themselves, their patches if they were rebased or picked, or
// all their changes in one commit if they were squashed.
func (r History) Merged(ctx context.Context, base, from, tip string) (bool, error) {
	if within, err := r.IsAncestor(ctx, tip, base); err != nil || within {
		return within, err
	}
	own, missing, err := r.cherry(ctx, base, from, tip)
	if err != nil || own == 0 || missing == 0 {
		return own > 0 && missing == 0 && err == nil, err
	}
	if own == 1 {
		return false, nil
	}
	_, missing, err = r.cherrySquashed(ctx, base, from, tip)
	return missing == 0 && err == nil, err
}

// cherry counts the commits in from..tip, and those of them whose patch base lacks.
func (r History) cherry(ctx context.Context, base, from, tip string) (own, missing int, err error) {
	out, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"cherry", base, tip, from}})
	for line := range strings.Lines(out) {
		own++
		if strings.HasPrefix(line, "+") {
			missing++
		}
	}
	return own, missing, err
}

// cherrySquashed is cherry for a single commit with all changes of from..tip. It is always the same commit; no ref names it.
func (r History) cherrySquashed(ctx context.Context, base, from, tip string) (own, missing int, err error) {
	var env []string
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME=trellis", "GIT_"+who+"_EMAIL=trellis@localhost", "GIT_"+who+"_DATE=@0 +0000")
	}
	whole, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Env: env, Args: []string{"commit-tree", "--no-gpg-sign", tip + "^{tree}", "-p", from, "-m", "squashed"}})
	if err != nil {
		return 0, 0, err
	}
	return r.cherry(ctx, base, from, whole)
}

// MergeBase returns the best commit that is in the history of both, "" if there is none.
func (r History) MergeBase(ctx context.Context, a, b string) (string, error) {
	const none = 1
	return r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"merge-base", "--end-of-options", a, b}, Accept: []int{none}})
}

// isNonMerge reports whether a commit is not a merge.
func (r History) isNonMerge(ctx context.Context, dir, commit string) (bool, error) {
	if _, parents, err := r.repo.looseCommit(commit); err == nil {
		return len(parents) < 2, nil
	}
	_, err := r.repo.Refs().RevParse(ctx, dir, commit+"^2")
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	return false, err
}

// isRecentAncestor reports whether old is among the last commits of tip that are loose objects. False may also mean that it is unknown.
func (r History) isRecentAncestor(old, tip string) bool {
	const far = 10
	next := []string{tip}
	for i := 0; i < len(next) && i < far; i++ {
		if next[i] == old {
			return true
		}
		_, parents, _ := r.repo.looseCommit(next[i]) // only git can read others
		next = append(next, parents...)
	}
	return slices.Contains(next, old)
}

// Proof says how base contains the work of a branch. "" means not at all, or not in a way that can be shown.
type Proof string

const (
	InHistory Proof = "ancestor" // the commits themselves: no line can get lost; the other two ignore white space
	InPatches Proof = "patches"  // the patch of each commit, rebased or picked
	InOne     Proof = "squash"   // all changes, in one commit
)

// Prove returns how base has the work of from..tip. It is stricter than [History.Merged]: a branch without a commit of its own
// counts as not merged, and what a merge commit of the branch may contain besides its parents counts. If from is "" or a commit
// that no longer exists, it is the commit at which tip left base.
func (r History) Prove(ctx context.Context, base, from, tip string) (Proof, error) {
	if tip == from {
		return "", nil
	}
	if within, err := r.IsAncestor(ctx, tip, base); err != nil || within {
		return proofIf(within, InHistory), err
	}
	fork, err := r.MergeBase(ctx, base, tip)
	if err != nil || fork == "" {
		return "", err
	}
	if _, err := r.repo.Refs().Resolve(ctx, from); from == "" || errors.Is(err, ErrNotFound) {
		from = fork
	}
	if picked, err := r.isPicked(ctx, base, from, tip); err != nil || picked {
		return proofIf(picked, InPatches), err
	}
	for _, start := range []string{from, fork} { // the branch may be based on another one, or have merged base
		if one, err := r.isSquashed(ctx, base, start, tip); err != nil || one {
			return proofIf(one, InOne), err
		}
	}
	return "", nil
}

func proofIf(yes bool, how Proof) Proof {
	if yes {
		return how
	}
	return ""
}

// isPicked reports whether base has the patch of every commit in from..tip, none of which is a merge.
func (r History) isPicked(ctx context.Context, base, from, tip string) (bool, error) {
	own, missing, err := r.cherry(ctx, base, from, tip)
	if err != nil || own == 0 || missing > 0 {
		return false, err
	}
	merge, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"rev-list", "--min-parents=2", "--max-count=1", "--end-of-options", tip, "^" + base, "^" + from}})
	return merge == "" && err == nil, err
}

// isSquashed reports whether a single commit of base makes all changes of from..tip.
func (r History) isSquashed(ctx context.Context, base, from, tip string) (bool, error) {
	before, err := r.repo.Refs().TreeAt(ctx, from)
	if err != nil {
		return false, err
	}
	if after, err := r.repo.Refs().TreeAt(ctx, tip); err != nil || after == before { // every base has an empty change
		return false, err
	}
	own, missing, err := r.cherrySquashed(ctx, base, from, tip)
	return own == 1 && missing == 0 && err == nil, err
}

// Subjects returns the newest commits in other..tip, without merges, one per line: abbreviated hash, author and subject.
func (r History) Subjects(ctx context.Context, other, tip string, most int) (string, error) {
	return r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"log", "--no-show-signature", "--no-merges", "--max-count=" + strconv.Itoa(most), "--format=%h %an: %s", "--end-of-options", tip, "^" + other, "--"}})
}

// WithConflictMarkers returns those of the files of a checkout that hold conflict markers: lines that look like one, and that the
// file has in none of the commits.
func (r History) WithConflictMarkers(ctx context.Context, dir string, files []string, commits ...string) (left []string, err error) {
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
		text, err := readIfRegular(dir, path)
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

// maxMarked is the largest file that is searched for markers: git itself does not merge larger ones line by line.
const maxMarked = 512 << 20

// readIfRegular returns the text of a file below dir, "" if it is gone or not a regular file.
func readIfRegular(dir, path string) (string, error) {
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
