package contextfiles

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Checker determines which rows can be used in a repository.
type Checker struct {
	Root   string                          // main checkout
	Git    string                          // how to begin a git command about Root in a hint for people; "": git
	InBase func(path string) (bool, error) // whether path, without a final /, is in the base commit of worktrees; nil: not checked
}

// Check returns the usable rows, with cleaned paths, and the problems of the others. A row is usable if its path stays inside
// the repository when symlinks are followed, exists with the given type, is text, and was not named before. A row with only
// warnings is usable.
func (c Checker) Check(name string, rows []Row) ([]Row, []trellis.Problem) {
	root, err := os.OpenRoot(c.Root)
	if err != nil {
		return nil, []trellis.Problem{{File: name, Message: "opening the repository: " + err.Error()}}
	}
	defer root.Close()
	k := rowChecker{Checker: c, tree: tree{c.Root, root}, name: name, seen: map[string]int{}}
	var valid []Row
	for _, r := range rows {
		if k.checkRow(&r) {
			valid = append(valid, r)
		}
	}
	return valid, k.problems
}

type rowChecker struct {
	Checker
	tree     tree
	name     string
	seen     map[string]int // clean path → line
	problems []trellis.Problem
	guesses  int
}

func (k *rowChecker) checkRow(r *Row) bool {
	clean, wrong := cleanPath(r.Path)
	if wrong != "" {
		return k.refuse(r, "%s: %s", printablePath(r.Path), wrong)
	}
	clean = k.tree.currentPath(clean)
	if first, ok := k.seen[clean]; ok {
		return k.refuse(r, "%s is already in line %d", clean, first)
	}
	if r.Type == Directory {
		if !k.checkDirectory(r, clean) {
			return false
		}
		r.Path = strings.TrimSuffix(clean, "/") + "/"
	} else {
		if !k.checkFile(r, clean) {
			return false
		}
		r.Path = clean
	}
	if r.Unread != "" {
		k.warn(r, "give it a row of its own", "%s is not read, since the row names %s", printablePath(r.Unread), clean)
	}
	k.warnOfConflict(r.Path)
	k.seen[clean] = r.Line
	k.warnIfNotInBase(r, clean)
	return true
}

func (k *rowChecker) checkFile(r *Row, clean string) bool {
	size, wrong := k.tree.checkFile(clean)
	switch {
	case wrong == isDirectory:
		return k.refuse(r, `%s is a directory: end its path in / and add "type": "directory"`, clean)
	case wrong == isMissing:
		return k.refuseMissing(r, clean)
	case wrong != "":
		return k.refuse(r, "%s %s", clean, wrong)
	case strings.HasSuffix(r.Path, "/"):
		return k.refuse(r, "%s is a file: take the / from its end", clean)
	case size > DefaultCaps().File:
		k.warn(r, "", "%s has %d bytes: prompts show its first %d, and say where the rest is", clean, size, DefaultCaps().File)
	}
	return true
}

func (k *rowChecker) checkDirectory(r *Row, clean string) bool {
	files, more, wrong := k.tree.markdownFiles(clean)
	switch {
	case wrong == isFile:
		return k.refuse(r, `%s is a file, not a directory: take out "type"`, clean)
	case wrong == isMissing:
		return k.refuseMissing(r, clean)
	case wrong != "":
		return k.refuse(r, "%s %s", clean, wrong)
	case len(files) == 0:
		k.warn(r, "", "%s/ has no *.md files, and only those are shown", clean)
	case more > 0:
		k.warn(r, "", "%s/ has %d *.md files: prompts show the first %d", clean, len(files)+more, len(files))
	}
	for _, f := range files {
		if _, wrong := k.tree.checkFile(f); wrong != "" {
			k.warn(r, "", "%s %s", f, wrong)
		}
		k.warnOfConflict(f)
	}
	return true
}

// warnOfConflict warns of a merge conflict that git left in a document of .trellis: agents would see both of its sides.
func (k *rowChecker) warnOfConflict(name string) {
	if !isTrellisPath(name) || path.Ext(name) != ".md" {
		return
	}
	content, _, _ := k.tree.read(name, DefaultCaps().File) // other problems of the file are reported elsewhere
	if p := criteria.Conflict(name, content); p != nil {
		p.Warning = true
		k.problems = append(k.problems, *p)
	}
}

// warnIfNotInBase warns of a path that a worktree will not have. Paths below .trellis are read from the main checkout.
func (k *rowChecker) warnIfNotInBase(r *Row, clean string) {
	if k.InBase == nil || isTrellisPath(clean) || clean == "." {
		return
	}
	git := cmp.Or(k.Git, "git")
	switch ok, err := k.InBase(clean); {
	case err != nil:
		k.warn(r, "", "looking for %s in the base commit: %v", clean, err)
	case !ok:
		k.warn(r, git+" add -- "+trellis.ShellWord(":/"+clean)+" && "+git+" commit", "%s is not in the base commit: commit it, the worktree won't have it", clean)
	}
}

// maxGuesses is the maximum number of missing paths in a file for which similar paths are searched.
const maxGuesses = 20

// refuseMissing refuses a path that does not exist, with the one that is probably meant as a hint.
func (k *rowChecker) refuseMissing(r *Row, clean string) bool {
	k.refuse(r, "%s %s", clean, isMissing)
	if k.guesses++; k.guesses > maxGuesses {
		return false
	}
	if near := k.tree.nearestPath(clean); near != "" {
		if r.Type == Directory {
			near += "/"
		}
		k.problems[len(k.problems)-1].Hint = "did you mean: " + near
	}
	return false
}

// refuse records a problem and returns false.
func (k *rowChecker) refuse(r *Row, format string, args ...any) bool {
	k.problems = append(k.problems, trellis.Problem{File: k.name, Line: r.Line, Message: fmt.Sprintf(format, args...), Hint: fixHint(k.name)})
	return false
}

func (k *rowChecker) warn(r *Row, hint, format string, args ...any) {
	k.problems = append(k.problems, trellis.Problem{File: k.name, Line: r.Line, Message: fmt.Sprintf(format, args...), Hint: hint, Warning: true})
}

// cleanPath returns p in a normal form without a final /, or the reason why it is forbidden regardless of the disk.
func cleanPath(p string) (clean, wrong string) {
	parts := strings.Split(p, "/")
	switch {
	case p == "":
		return "", "is empty"
	case strings.ContainsFunc(p, isUnprintable):
		return "", "has a control character in it"
	case strings.HasPrefix(p, "/"):
		return "", "is absolute: write it from the top of the repository"
	case strings.Contains(p, `\`):
		return "", `has a \ in it: write / between folders`
	case driveLetter().MatchString(p):
		return "", "is absolute: write it from the top of the repository"
	case slices.Contains(parts, ".."):
		return "", "has .. in it: write it from the top of the repository"
	case slices.ContainsFunc(parts, func(s string) bool { return strings.EqualFold(s, ".git") }):
		return "", "is inside .git, which is not part of the project's files"
	}
	return path.Clean(p), ""
}

var driveLetter = trellis.Pattern(`^[A-Za-z]:`)

// isUnprintable reports whether a character could break a line of a prompt or a terminal.
func isUnprintable(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar
}

func printablePath(p string) string {
	if p == "" || strings.ContainsFunc(p, isUnprintable) {
		return fmt.Sprintf("%q", p)
	}
	return p
}

// isTrellisPath reports whether a clean path is .trellis or below it.
func isTrellisPath(p string) bool { return p == ".trellis" || strings.HasPrefix(p, ".trellis/") }

// fixHint returns the command that mends or drops invalid rows of the context file called name in its task's directory.
func fixHint(name string) string {
	dir := path.Dir(name)
	if dir == "." {
		return ""
	}
	return "trellis validate " + trellis.ShellWord(dir) + " --fix"
}
