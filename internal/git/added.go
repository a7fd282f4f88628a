package git

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Stretch are lines that follow each other and were added to a file.
type Stretch struct {
	Path  string
	First int    // number of the first line, from 1
	Text  string // the lines, of any file: what is no text has zero bytes in it
	Cut   bool   // it is too long, and this is its beginning
}

// raw are the options of a patch that shows all that is added, whatever attributes and settings say.
var raw = []string{"-p", "--unified=0", "--inter-hunk-context=0", "--text", "--no-ext-diff", "--no-textconv", "--no-renames",
	"--no-color", "--ignore-submodules=all", "--src-prefix=a/", "--dst-prefix=b/"}

// Added hands on, stretch by stretch, what the index of a checkout adds to the commit from; with to, what that commit adds
// to from, or with from "" to its first parent. Of a file no more than most bytes are handed on. Submodules are left out.
func (r History) Added(ctx context.Context, dir, from, to string, most int, each func(Stretch)) error {
	args := slices.Concat([]string{"-c", "core.quotePath=false", "diff-index", "--cached"}, raw, []string{"--end-of-options", from, "--"})
	switch {
	case from == "":
		args = slices.Concat([]string{"-c", "core.quotePath=false", "diff-tree", "-r", "--root", "--no-commit-id", "--diff-merges=first-parent"}, raw, []string{"--end-of-options", to, "--"})
	case to != "":
		args = slices.Concat([]string{"-c", "core.quotePath=false", "diff-tree", "-r"}, raw, []string{"--end-of-options", from, to, "--"})
	}
	p := &patch{each: each, most: most}
	_, _, err := r.Run(ctx, Command{Dir: dir, Args: args, Stdout: p})
	p.end()
	if err == nil {
		err = p.wrong
	}
	if err != nil {
		return fmt.Errorf("reading what is added in %s: %w", dir, err)
	}
	return nil
}

// patch reads a patch as it comes.
type patch struct {
	each     func(Stretch)
	most     int
	line     []byte // not ended yet
	long     bool   // it is longer than what is kept
	path     string
	left     int // bytes that may still be kept of the file
	old, new int // lines of the stretch that are still to come
	now      Stretch
	text     []byte
	wrong    error
}

func (p *patch) Write(data []byte) (int, error) {
	n := len(data)
	for {
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		keep := part[:min(len(part), max(p.most+1-len(p.line), 0))] // and a + before the text
		p.long = p.long || len(keep) < len(part)
		p.line = append(p.line, keep...)
		if !ended {
			return n, p.wrong
		}
		p.take(p.line)
		p.line, p.long, data = p.line[:0], false, rest
	}
}

func (p *patch) end() {
	if p.now.First > 0 {
		p.now.Text = string(p.text)
		p.each(p.now)
	}
	p.now, p.text = Stretch{}, p.text[:0]
}

func (p *patch) take(line []byte) {
	if p.old+p.new > 0 {
		p.body(line)
		return
	}
	if name, ok := bytes.CutPrefix(line, []byte("+++ ")); ok {
		p.end()
		p.left = p.most
		p.path, p.wrong = pathIn(string(name))
		return
	}
	if !bytes.HasPrefix(line, []byte("@@ -")) {
		return
	}
	p.end()
	var first int
	first, p.old, p.new = places(string(line))
	if p.new > 0 {
		p.now = Stretch{Path: p.path, First: first}
	}
}

func (p *patch) body(line []byte) {
	switch {
	case len(line) == 0 || line[0] == '\\': // no line end at the end of the file
	case line[0] == '-':
		p.old--
	case line[0] == '+':
		p.new--
		keep := line[1:][:min(len(line)-1, p.left)]
		p.now.Cut = p.now.Cut || p.long || len(keep) < len(line)-1
		p.text = append(append(p.text, keep...), '\n')
		p.left -= len(keep)
	}
}

// pathIn is the path behind +++, which git quotes when there are odd characters in it.
func pathIn(name string) (string, error) {
	name = strings.TrimSuffix(name, "\t")
	if strings.HasPrefix(name, `"`) {
		unquoted, err := strconv.Unquote(name)
		if err != nil {
			return "", fmt.Errorf("what is the path %s", name)
		}
		name = unquoted
	}
	return strings.TrimPrefix(name, "b/"), nil
}

// places reads @@ -old,lines +new,lines @@: the first new line, and how many old and new ones there are.
func places(line string) (first, old, new int) {
	parts := strings.Fields(line)
	if len(parts) < 3 {
		return 0, 0, 0
	}
	_, old = span(parts[1])
	first, new = span(parts[2])
	return first, old, new
}

func span(s string) (first, lines int) {
	at, n, several := strings.Cut(s[1:], ",")
	first, _ = strconv.Atoi(at)
	if lines = 1; several {
		lines, _ = strconv.Atoi(n)
	}
	return first, lines
}

// TextsAt tells which of these texts stand in a file of a commit. Texts of several lines are not looked for.
func (r History) TextsAt(ctx context.Context, commit string, texts []string) (map[string]bool, error) {
	held := map[string]bool{}
	if len(texts) == 0 {
		return held, nil
	}
	const none = 1
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Stdin: strings.NewReader(strings.Join(texts, "\n") + "\n"), Accept: []int{none}, Args: []string{"grep", "--text", "-h",
		"--no-line-number", "--no-column", "--no-color", "--no-recurse-submodules", "--only-matching", "--fixed-strings", "-f", "-", commit}})
	for line := range strings.Lines(out) {
		held[strings.TrimSuffix(line, "\n")] = true
	}
	return held, err
}

// Between are the commits that tip has and neither base nor, where it is there, the branch also has, newest first.
func (r History) Between(ctx context.Context, base, also, tip string) ([]string, error) {
	args := []string{"rev-list", "--end-of-options", tip, "^" + base}
	if sha, err := r.Refs().Branch(ctx, also); err == nil && sha != "" {
		args = append(args, "^"+sha)
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args})
	return strings.Fields(out), err
}

// Messages are those of commits, by commit.
func (r History) Messages(ctx context.Context, commits []string) (map[string]string, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	const begin, end = "commit ", "\x00\n"
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Stdin: strings.NewReader(strings.Join(commits, "\n") + "\n"), Args: []string{"rev-list", "--no-walk", "--stdin", "--format=%B%x00"}})
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
		args = append(args, literal("", p))
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Stdin: strings.NewReader(strings.Join(commits, "\n") + "\n"), Args: args})
	list := strings.FieldsFunc(out, func(c rune) bool { return c == 0 })
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
		texts[path], _, err = r.Run(ctx, Command{Dir: r.Main, Args: []string{"cat-file", "blob", commit + ":" + path}})
	}
	return texts, err
}

// Staged is the tree that the index of a checkout makes, "" when that takes more than a look.
func (r Index) Staged(dir string) string {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return ""
	}
	f, err := r.readIndex(filepath.Join(gitDir, "index"))
	if err != nil {
		return ""
	}
	return f.tree
}

// Makes reports whether a commit has this tree and this parent alone. That it has not is no answer.
func (r History) Makes(commit, parent, tree string) bool {
	got, parents, err := r.loose(commit)
	return err == nil && got == tree && slices.Equal(parents, []string{parent})
}

// TakeBack makes a branch end in an older commit of its own, when it ends in tip. What it had above that is in the index and the
// files of its checkout as before, still to be committed.
func (r Refs) TakeBack(ctx context.Context, branch, to, tip string) error {
	if err := r.MoveRef(ctx, BranchPrefix+branch, to, tip); err != nil {
		return fmt.Errorf("taking back what %s has: %w", branch, err)
	}
	return nil
}
