package update

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
)

// ConflictError means that two commits change the same thing in a way that can't be shown as both sides in a file.
type ConflictError struct {
	Files []string
	Said  []string // a description of each, mostly git's
}

func (e *ConflictError) Error() string { return strings.Join(e.Said, "; ") }

// ErrOldGit means that the git command is too old to merge without a checkout.
var ErrOldGit = errors.New("git " + mergesSince + " or newer is needed to merge without a checkout")

const mergesSince = "2.38"

// mergeResult is the result of merging two commits.
type mergeResult struct {
	tree         string
	clashes      []clash  // files in which both sides can be shown
	files        []string // files that conflict in another way
	descriptions []string // descriptions of these conflicts; the commits are named by hash, or oneSide and otherSide

	one, other string // the commits
}

func (m mergeResult) hasConflicts() bool { return len(m.clashes)+len(m.files) > 0 }

// maxClashes is the maximum number of files with both sides that anybody is asked to resolve.
const maxClashes = 100

// checkResolvable returns a *ConflictError if files can't show all conflicts, or too many files have some. one and other name the commits.
func (m mergeResult) checkResolvable(one, other string) error {
	if len(m.files) > 0 {
		m.clashes = nil
		return m.conflictError(one, other)
	}
	if len(m.clashes) > maxClashes {
		e := m.conflictError(one, other)
		e.Said = []string{fmt.Sprintf("%d files conflict", len(m.clashes))}
		return e
	}
	return nil
}

func (m mergeResult) conflictError(one, other string) *ConflictError {
	e := &ConflictError{Files: slices.Clone(m.files)}
	names := strings.NewReplacer(m.one, one, m.other, other, oneSide, one, otherSide, other)
	for _, text := range m.descriptions {
		e.Said = append(e.Said, names.Replace(text))
	}
	for _, c := range m.clashes {
		e.Files = append(e.Files, c.path)
		e.Said = append(e.Said, "both changed the same lines of "+c.path)
	}
	return e
}

// clash is a file in which two commits changed the same lines.
type clash struct {
	path, mode string
	blobs      [3]string // of the common ancestor, of one, of the other; the first is "" if both added the file
}

// Conflicts returns the files in which two commits can't be merged, sorted. It returns ErrOldGit if git is too old.
func (r Updater) Conflicts(ctx context.Context, a, b string) ([]string, error) {
	m, err := r.merge(ctx, a, b)
	files := m.files
	for _, c := range m.clashes {
		files = append(files, c.path)
	}
	slices.Sort(files)
	return slices.Compact(files), err
}

// parseMerge parses the output of git merge-tree: the tree, the conflicting files by stage, an empty field, and for each message
// the number of its paths, the paths, its kind and its text.
func (r Updater) parseMerge(ctx context.Context, f []string, clean bool) (m mergeResult, err error) {
	m.tree, f = f[0], f[1:]
	if clean {
		return m, nil
	}
	stages := map[string]*clash{}
	var order []string
	for len(f) > 0 && f[0] != "" {
		info, path, _ := strings.Cut(f[0], "\t")
		part := strings.Fields(info)
		if len(part) != 3 {
			return m, fmt.Errorf("reading git merge-tree: unexpected %q", f[0])
		}
		if stages[path] == nil {
			stages[path] = &clash{path: path}
			order = append(order, path)
		}
		stages[path].addStage(part)
		f = f[1:]
	}
	hard := m.collectMessages(f, stages)
	for _, path := range order {
		c := stages[path]
		if !slices.Contains(hard, path) && c.canHoldBoth() && r.isText(ctx, *c) {
			m.clashes = append(m.clashes, *c)
			continue
		}
		if m.files = append(m.files, path); !slices.Contains(hard, path) {
			m.descriptions = append(m.descriptions, "both changed "+path+", which is neither text nor a link")
		}
	}
	return m, nil
}

func (c *clash) addStage(part []string) {
	i := int(part[2][0] - '1')
	if i < 0 || i >= len(c.blobs) {
		return
	}
	if c.blobs[i] = part[1]; i == 1 {
		c.mode = part[0]
	}
	if !strings.HasPrefix(part[0], "100") { // a link or a submodule
		c.mode = ""
	}
	if i == 2 && c.mode != "" && part[0] != c.mode {
		c.mode = "100755"
	}
}

// canHoldBoth reports whether a file can hold both sides.
func (c *clash) canHoldBoth() bool {
	return strings.HasPrefix(c.mode, "100") && c.blobs[1] != "" && c.blobs[2] != ""
}

// collectMessages collects git's messages about conflicts that can't be shown in a file, and returns the paths of those files.
func (m *mergeResult) collectMessages(f []string, stages map[string]*clash) (paths []string) {
	for len(f) > 0 && f[0] == "" {
		f = f[1:]
	}
	for len(f) > 0 {
		n, err := strconv.Atoi(f[0])
		if err != nil || len(f) < n+3 {
			return paths
		}
		of, kind, text := f[1:1+n], f[1+n], strings.TrimSpace(f[2+n])
		if strings.HasPrefix(kind, "CONFLICT") && kind != "CONFLICT (contents)" {
			paths = append(paths, of...)
			m.descriptions = append(m.descriptions, describeConflict(kind, of, text, stages))
		}
		f = f[n+3:]
	}
	return paths
}

// oneSide and otherSide are placeholders for the names of two commits.
const (
	oneSide   = "\x01"
	otherSide = "\x02"
)

// describeConflict returns a short description of a conflict for people, who don't see our commits, or else git's text.
func describeConflict(kind string, of []string, text string, stages map[string]*clash) string {
	kind = strings.TrimSuffix(strings.TrimPrefix(kind, "CONFLICT ("), ")")
	if len(of) == 0 {
		return text
	}
	path := of[0]
	c := stages[path]
	switch {
	case kind == "binary":
		return "both changed the binary file " + path
	case kind == "modify/delete" && c != nil && c.blobs[1] == "":
		return oneSide + " deleted " + path + ", which " + otherSide + " changed"
	case kind == "modify/delete":
		return otherSide + " deleted " + path + ", which " + oneSide + " changed"
	case kind == "file/directory" && len(of) > 1:
		return of[1] + " is a file on one side and a folder on the other"
	case strings.HasPrefix(kind, "submodule"):
		return "both moved the submodule " + path + " to another commit"
	}
	return text
}

// isText reports whether git would merge a file line by line.
func (r Updater) isText(ctx context.Context, c clash) bool {
	const looked = 8000 // bytes that git checks
	for _, blob := range c.blobs {
		if blob == "" {
			continue
		}
		text, _, err := r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"cat-file", "blob", blob}})
		if err != nil || strings.Contains(text[:min(len(text), looked)], "\x00") {
			return false
		}
	}
	return true
}

// markerLabels are the labels of conflict markers: of the one side, of the common ancestor, of the other side.
type markerLabels [3]string

// treeWithMarkers returns the tree of a merge in which the files that clash hold both sides and their common ancestor.
func (r Updater) treeWithMarkers(ctx context.Context, m mergeResult, labels markerLabels) (tree string, err error) {
	temp, remove, err := r.repo.Scratch()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var info strings.Builder
	for _, c := range m.clashes {
		blob, err := r.bothSides(ctx, temp, c, labels)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&info, "%s %s\t%s\x00", c.mode, blob, c.path)
	}
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(temp, "index")}
	if err := r.repo.Do(ctx, git.Command{Dir: r.repo.Main, Env: env, Args: []string{"read-tree", m.tree}}); err != nil {
		return "", err
	}
	if err := r.repo.Do(ctx, git.Command{Dir: r.repo.Main, Env: env, Args: []string{"update-index", "-z", "--index-info"}, Stdin: strings.NewReader(info.String())}); err != nil {
		return "", err
	}
	return r.repo.Line(ctx, git.Command{Dir: r.repo.Main, Env: env, Args: []string{"write-tree"}, Write: true})
}

// bothSides returns the blob of a file with both sides in it.
func (r Updater) bothSides(ctx context.Context, temp string, c clash, labels markerLabels) (string, error) {
	var files [3]string
	for i, blob := range c.blobs {
		text := ""
		if blob != "" {
			var err error
			if text, _, err = r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"cat-file", "blob", blob}}); err != nil {
				return "", err
			}
		}
		files[i] = filepath.Join(temp, strconv.Itoa(i))
		if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	var found []int // exit codes: the number of conflicts
	for n := range 127 {
		found = append(found, n+1)
	}
	text, _, err := r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Accept: found,
		Args: []string{"merge-file", "-p", "--zdiff3", "-L", labels[0], "-L", labels[1], "-L", labels[2], files[1], files[0], files[2]}})
	if err != nil {
		return "", err
	}
	return r.repo.Line(ctx, git.Command{Dir: r.repo.Main, Args: []string{"hash-object", "-w", "--stdin"}, Stdin: strings.NewReader(text), Write: true})
}
