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

// History is what commits hold, and how they follow each other.
type History struct {
	repo *Repo
	refs Refs
}

// FindTrailer is the newest commit that tip has and base has not, and that carries the trailer
// ("Key: value"); "" when there is none. With base "" it may have to read a long history.
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

// logRecords are commits as git log -z tells of them, in so many fields each.
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

// Ahead is how many commits tip has that other has not.
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
	if r.near(old, tip) {
		return true, nil
	}
	_, code, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"merge-base", "--is-ancestor", "--end-of-options", old, tip}, Accept: []int{1}})
	return code == 0 && err == nil, err
}

// AddedLines calls each with every hunk of lines that the index of a checkout adds to the commit from; with to, of those that commit to
// adds to from, or with from "" to its first parent. Of each file it passes on no more than most bytes. Submodules are left out.
func (r History) AddedLines(ctx context.Context, dir, from, to string, most int, each func(Hunk)) error {
	args := slices.Concat([]string{"-c", "core.quotePath=false", "diff-index", "--cached"}, raw, []string{"--end-of-options", from, "--"})
	switch {
	case from == "":
		args = slices.Concat([]string{"-c", "core.quotePath=false", "diff-tree", "-r", "--root", "--no-commit-id", "--diff-merges=first-parent"}, raw, []string{"--end-of-options", to, "--"})
	case to != "":
		args = slices.Concat([]string{"-c", "core.quotePath=false", "diff-tree", "-r"}, raw, []string{"--end-of-options", from, to, "--"})
	}
	p := &patch{each: each, most: most}
	err := r.repo.Do(ctx, Command{Dir: dir, Args: args, Stdout: p})
	p.end()
	if err == nil {
		err = p.wrong
	}
	if err != nil {
		return fmt.Errorf("reading what is added in %s: %w", dir, err)
	}
	return nil
}

// TextsAt tells which of these texts stand in a file of a commit. Texts of several lines are not looked for.
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

// Between are the commits that tip has and neither base nor, where it is there, the branch also has, newest first.
func (r History) Between(ctx context.Context, base, also, tip string) ([]string, error) {
	args := []string{"rev-list", "--end-of-options", tip, "^" + base}
	if sha, err := r.refs.Branch(ctx, also); err == nil && sha != "" {
		args = append(args, "^"+sha)
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: args})
	return strings.Fields(out), err
}

// Messages are those of commits, by commit.
func (r History) Messages(ctx context.Context, commits []string) (map[string]string, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	const begin, end = "commit ", "\x00\n"
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Stdin: strings.NewReader(strings.Join(commits, "\n") + "\n"), Args: []string{"rev-list", "--no-walk", "--stdin", "--format=%B%x00"}})
	said := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimSuffix(out, end), end) {
		sha, text, _ := strings.Cut(strings.TrimPrefix(part, begin), "\n")
		said[sha] = text
	}
	return said, err
}

// Touched are those of the paths, files or all in folders, that one of the commits changes by itself: what a merge only
// brings along is not its doing.
func (r History) Touched(ctx context.Context, commits, paths []string) ([]string, error) {
	if len(commits) == 0 || len(paths) == 0 {
		return nil, nil
	}
	args := []string{"diff-tree", "--stdin", "--root", "-r", "-c", "-z", "--no-commit-id", "--name-only", "--no-renames", "--no-ext-diff", "--"}
	for _, p := range paths {
		args = append(args, Literal(p))
	}
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Stdin: strings.NewReader(strings.Join(commits, "\n") + "\n"), Args: args})
	list := nulls(out)
	slices.Sort(list)
	return slices.Compact(list), err
}

// Read is the text of those of the files that a commit has.
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

// Makes reports whether a commit has this tree and this parent alone. That it has not is no answer.
func (r History) Makes(commit, parent, tree string) bool {
	got, parents, err := r.repo.loose(commit)
	return err == nil && got == tree && slices.Equal(parents, []string{parent})
}

// ChangesBetween are the paths at which two commits differ, sorted.
func (r History) ChangesBetween(ctx context.Context, old, new string) ([]Change, error) {
	args := slices.Concat([]string{"diff-tree", "-r", "-z", "--raw", "--numstat"}, Plain, []string{"--end-of-options", old, new})
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: args})
	if err != nil {
		return nil, err
	}
	return ParseChanges(out)
}

// Tracks reports whether git has a file of the main checkout, in the index or below a path of it.
func (r History) Tracks(ctx context.Context, rel string) (bool, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: r.repo.Main, Args: []string{"ls-files", "-z", "--", Literal(filepath.ToSlash(rel))}})
	return out != "", err
}

// Diff writes the difference between two commits to w, as a patch, or with stat as text for people: one
// file a line and the sum.
func (r History) Diff(ctx context.Context, from, to string, stat bool, w io.Writer) error {
	form := "--patch"
	if stat {
		form = "--stat=100"
	}
	err := r.repo.Do(ctx, Command{Dir: r.repo.Main, Stdout: w, Args: []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", form, "--end-of-options", from, to}})
	return err
}

// FilesAt tells which of the paths, files or folders, are in a commit. Paths are relative to the root.
func (r History) FilesAt(ctx context.Context, commit string, paths []string) (map[string]bool, error) {
	const most = 10_000 // answers that are remembered
	found, unknown := map[string]bool{}, map[string]string{}
	for _, p := range paths {
		there, known := r.repo.files.recall(commit + ":" + p)
		if name := strings.TrimRight(p, "/"); !known && name != "" { // git takes "" for everything
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
			r.repo.files.keep(commit+":"+p, there[name], most)
		}
	}
	return found, nil
}

// Files are the paths in a checkout that git has or would take: ignored ones are left out. One that was removed
// and is still known to git may be among them.
func (r History) Files(ctx context.Context, dir string) ([]string, error) {
	out, _, err := r.repo.Run(ctx, Command{Dir: dir, Args: []string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"}})
	return nulls(out), err
}

// Builds reports whether a commit has one in its history that was pushed for whose.
func (r History) Builds(ctx context.Context, whose, commit string) (bool, error) {
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

// Authors are those who made the commits that tip has and other has not, the one of the newest first, and how many commits
// these are. What a merge brought along is left out.
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

// OnlyIn counts the commits that are in the history of a commit, and in that of no branch, remote one or tag.
func (r History) OnlyIn(ctx context.Context, commit string) (int, error) {
	return r.count(ctx, commit, "--not", "--branches", "--remotes", "--tags")
}

// Merged reports whether base has the work between the commits from and tip: the commits themselves, their patches
// when they were rebased or picked, or all that they change in one commit when they were squashed.
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

// cherry counts the commits between from and tip, and those of them whose patch base has not.
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

// cherrySquashed is cherry of one commit of all that lies between from and tip, always the same one. No ref names it.
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

// MergeBase is the best commit that is in the history of both, "" when there is none.
func (r History) MergeBase(ctx context.Context, a, b string) (string, error) {
	const none = 1
	return r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"merge-base", "--end-of-options", a, b}, Accept: []int{none}})
}

// single reports whether a commit is no merge.
func (r History) single(ctx context.Context, dir, commit string) (bool, error) {
	if _, parents, err := r.repo.loose(commit); err == nil {
		return len(parents) < 2, nil
	}
	_, err := r.refs.RevParse(ctx, dir, commit+"^2")
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	return false, err
}

// near reports whether old is among the last commits of tip that lie in files of their own. That it is not is no answer.
func (r History) near(old, tip string) bool {
	const far = 10
	next := []string{tip}
	for i := 0; i < len(next) && i < far; i++ {
		if next[i] == old {
			return true
		}
		_, parents, _ := r.repo.loose(next[i]) // of another nothing is known without git
		next = append(next, parents...)
	}
	return slices.Contains(next, old)
}

// Proof says how a base was found to have the work of a branch. "" is not at all, or not so that it shows.
type Proof string

const (
	InHistory Proof = "ancestor" // its commits themselves
	InPatches Proof = "patches"  // each of its commits, rebased or picked
	InOne     Proof = "squash"   // all that it changes, in one commit
)

// Prove says how base has the work between the commits from and tip. It is stricter than [History.Merged]: a branch
// without a commit of its own is merged nowhere, and what a merge commit of the branch may hold besides its parents
// counts. from may be "" or a commit that is gone: then it is where tip left base.
//
// Patches are compared without white space: only InHistory means that no line can be lost with the branch.
func (r History) Prove(ctx context.Context, base, from, tip string) (Proof, error) {
	if tip == from {
		return "", nil
	}
	if within, err := r.IsAncestor(ctx, tip, base); err != nil || within {
		return proven(within, InHistory), err
	}
	fork, err := r.MergeBase(ctx, base, tip)
	if err != nil || fork == "" {
		return "", err
	}
	if _, err := r.refs.Resolve(ctx, from); from == "" || errors.Is(err, ErrNotFound) {
		from = fork
	}
	if picked, err := r.picked(ctx, base, from, tip); err != nil || picked {
		return proven(picked, InPatches), err
	}
	for _, start := range []string{from, fork} { // the branch may stand on another one, or base may have been merged into it
		if one, err := r.inOne(ctx, base, start, tip); err != nil || one {
			return proven(one, InOne), err
		}
	}
	return "", nil
}

func proven(yes bool, how Proof) Proof {
	if yes {
		return how
	}
	return ""
}

// picked reports whether base has the patch of every commit between from and tip, none of which is a merge.
func (r History) picked(ctx context.Context, base, from, tip string) (bool, error) {
	own, missing, err := r.cherry(ctx, base, from, tip)
	if err != nil || own == 0 || missing > 0 {
		return false, err
	}
	merge, err := r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"rev-list", "--min-parents=2", "--max-count=1", "--end-of-options", tip, "^" + base, "^" + from}})
	return merge == "" && err == nil, err
}

// inOne reports whether a commit of base changes what lies between from and tip.
func (r History) inOne(ctx context.Context, base, from, tip string) (bool, error) {
	before, err := r.refs.TreeAt(ctx, from)
	if err != nil {
		return false, err
	}
	if after, err := r.refs.TreeAt(ctx, tip); err != nil || after == before { // nothing at all is in every base
		return false, err
	}
	own, missing, err := r.cherrySquashed(ctx, base, from, tip)
	return own == 1 && missing == 0 && err == nil, err
}

// Subjects are the newest commits that tip has and other has not, a line each: who made it and what it says.
func (r History) Subjects(ctx context.Context, other, tip string, most int) (string, error) {
	return r.repo.Line(ctx, Command{Dir: r.repo.Main, Args: []string{"log", "--no-show-signature", "--no-merges", "--max-count=" + strconv.Itoa(most), "--format=%h %an: %s", "--end-of-options", tip, "^" + other, "--"}})
}

// WithConflictMarkers returns those of the files of a checkout that hold conflict markers: lines that look like one, and that the file of
// that path has in none of the commits.
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
