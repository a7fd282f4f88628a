package config

import (
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// gitDir is git's own folder in a checkout.
const gitDir = ".git"

// relativeDir returns the folder of all worktrees relative to root, with slashes, and whether it lies in
// root. For an absolute folder that can't be told without root.
func (w Worktree) relativeDir(root string) (string, bool) {
	dir := strings.ReplaceAll(w.Dir, "<repo>", filepath.Base(root))
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	if filepath.IsAbs(dir) {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return "", false
		}
		dir = rel
	}
	return filepath.ToSlash(filepath.Clean(dir)), filepath.IsLocal(dir)
}

// FolderWarnings returns warnings about folders that the settings of the project name: there reports whether a path of the
// main checkout is a folder, ignored whether git ignores what lies in one. Both get paths from the top, with slashes.
func (f Files) FolderWarnings(there, ignored func(path string) bool) []trellis.Problem {
	c := defaults()
	d := decode(f.Config, &c, legacyKeys)
	d.mergeWorktreeFile(f.Worktree, &c)
	d.problems = nil // Load reports those
	for _, name := range sortedKeys(c.Packages) {
		if p := c.Packages[name].Path; p != "" && isLocal(p) && !there(filepath.ToSlash(filepath.Clean(p))) {
			d.warn("packages."+name+".path", " is not a folder of the checkout: "+p, "name its folder, unless it comes with the work of a task")
		}
	}
	below, inside := c.Worktree.relativeDir(f.Root)
	if inside && below != "." && below != gitDir && !strings.HasPrefix(below, gitDir+"/") && !ignored(below) {
		d.warn("worktree.dir", " is in the main checkout, and git does not ignore it: "+below, "add /"+below+"/ to .gitignore")
	}
	return d.problems
}

// warn reports something that is allowed and hardly meant.
func (d *decoder) warn(key, message, hint string) {
	d.report(key, "%s", message)
	last := &d.problems[len(d.problems)-1]
	last.Warning, last.Hint = true, hint
}
