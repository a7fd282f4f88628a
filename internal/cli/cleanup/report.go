package cleanup

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// report is what a cleanup found and did. Its JSON is a contract.
type report struct {
	Tasks     []cleanedTask     `json:"tasks"`
	Orphans   []cleanedWorktree `json:"orphans"`   // worktrees of no task
	Completed []string          `json:"completed"` // tasks whose work was found merged
	Size      int64             `json:"size"`      // of all worktrees, in bytes
	Freed     int64             `json:"freed"`

	root    string
	dryRun  bool
	orphans []delivery.Tree
}

type cleanedTask struct {
	Dir        string            `json:"dir"`
	ID         string            `json:"id"`
	Status     trellis.Status    `json:"status"`
	Branch     string            `json:"branch"`
	Remote     string            `json:"remote"` // which has the branch too, as far as is known here; ""
	BaseBranch string            `json:"base_branch"`
	Worktrees  []cleanedWorktree `json:"worktrees"`
	Size       int64             `json:"size"`
	Merged     git.Proof         `json:"merged"` // ancestor, patches, squash; "": it is not
	Into       string            `json:"into"`
	Why        string            `json:"why"`   // it is not
	Keeps      string            `json:"keeps"` // why it can't be taken away
	Hint       string            `json:"hint"`
	Saves      bool              `json:"saves"` // a backup is made before
	Removed    bool              `json:"removed"`
	Backups    []string          `json:"backups"` // that were made
	Error      string            `json:"error"`

	remotely string // the command that deletes the branch of the remote
}

type cleanedWorktree struct {
	Path    string   `json:"path"`
	Branch  string   `json:"branch"`
	Size    int64    `json:"size"`
	Gone    bool     `json:"gone"`
	Dirty   bool     `json:"dirty"`
	Locked  string   `json:"locked"`
	Nested  []string `json:"nested"`
	Ignored []string `json:"ignored"`
	Made    []string `json:"made"`  // ignored too, and called as what a build makes anew
	Loose   bool     `json:"loose"` // it has commits that no branch has
}

func worktreeRow(t delivery.Tree) cleanedWorktree {
	return cleanedWorktree{t.Path, t.Branch, t.Size, t.Gone, t.Dirty, t.Locked, append([]string{}, t.Nested...), append([]string{}, t.Ignored...), append([]string{}, t.Made...), t.Loose}
}

func (r *report) add(l delivery.Leftover) {
	rel, err := filepath.Rel(r.root, l.Dir)
	if err != nil {
		rel = l.Dir
	}
	t := cleanedTask{Dir: filepath.ToSlash(rel), ID: l.ID, Status: l.Status, Branch: l.Branch, BaseBranch: l.Base, Size: l.Size(), Merged: l.Proof, Into: l.In,
		Why: l.Why, Keeps: l.Keeps, Hint: l.Hint, Saves: l.Saves(), Worktrees: []cleanedWorktree{}, Backups: []string{}}
	if l.Remote != "" {
		t.Remote, t.remotely = l.Remote, l.RemoteDelete()
	}
	for _, tree := range l.Trees {
		t.Worktrees = append(t.Worktrees, worktreeRow(tree))
	}
	r.Tasks = append(r.Tasks, t)
}

func (r *report) removed(i int, done delivery.Removal) {
	t := &r.Tasks[i]
	t.Removed, t.Backups, t.Status = true, append(t.Backups, done.Saved...), done.Status
	if len(done.Completed) > 0 {
		t.Status = trellis.Completed
	}
}

// document is the report with its sums.
func (r *report) document() *report {
	r.Tasks, r.Orphans, r.Completed = append([]cleanedTask{}, r.Tasks...), []cleanedWorktree{}, append([]string{}, r.Completed...)
	for _, t := range r.orphans {
		r.Orphans = append(r.Orphans, worktreeRow(t))
		r.Size += t.Size
	}
	for _, t := range r.Tasks {
		r.Size += t.Size
		if t.Removed {
			r.Freed += t.Size
		}
	}
	return r
}

// print shows the report to people.
func (r *report) print(w io.Writer, o options) error {
	r.document()
	var b strings.Builder
	for _, t := range r.Tasks {
		t.print(&b, r.root, o)
	}
	for _, t := range r.Orphans {
		fmt.Fprintf(&b, "%s  %s\n  belongs to no task: git worktree remove %s\n", command.ShortPath(r.root, t.Path), size(t.Size), command.ShortPath(r.root, t.Path))
	}
	switch {
	case b.Len() == 0:
		b.WriteString("nothing is left of any task\n")
	case r.Freed > 0:
		fmt.Fprintf(&b, "freed %s of %s\n", size(r.Freed), size(r.Size))
	default:
		fmt.Fprintf(&b, "%s in all\n", size(r.Size))
	}
	_, err := io.WriteString(w, terminal.Safe(b.String()))
	return err
}

func (t cleanedTask) print(b *strings.Builder, root string, o options) {
	fmt.Fprintf(b, "%s  %s  %s\n", t.ID, t.Status, size(t.Size))
	row := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	if t.Branch != "" {
		row("branch", "%s", t.Branch)
	}
	for _, tree := range t.Worktrees {
		row("worktree", "%s%s", command.ShortPath(root, tree.Path), tree.remark())
		if len(tree.Ignored) > 0 {
			row("ignored", "%s (by git; in no backup)", some(tree.Ignored))
		}
		if len(tree.Made) > 0 {
			row("made", "%s (ignored by git and in no backup; by their names, a build makes them anew)", some(tree.Made))
		}
	}
	if t.Merged != "" {
		row("merged", "into %s (%s)", t.Into, proofWords(t.Merged))
	} else {
		row("merged", "no: %s", t.Why)
	}
	if t.Remote != "" && t.Merged != "" {
		row("remote", "%s has the branch too, and keeps it: %s", t.Remote, t.remotely)
	} else if t.Remote != "" {
		row("remote", "%s has the branch too", t.Remote)
	}
	row("cleanup", "%s", t.fate(o))
	for _, ref := range t.Backups {
		row("backup", "%s", ref)
	}
}

// fate is what was, or would be done.
func (t cleanedTask) fate(o options) string {
	saved := ""
	if t.Saves {
		saved = ", after a backup"
	}
	switch {
	case t.Removed && t.Branch == "" && len(t.Worktrees) == 0:
		return "there was nothing to remove"
	case t.Removed:
		return "removed" + saved
	case t.Error != "":
		return "left as it is: " + t.Error
	case t.Keeps != "":
		return strings.TrimSuffix("left as it is: "+t.Keeps+"; "+t.Hint, "; ")
	case t.Branch == "" && len(t.Worktrees) == 0:
		return "there is nothing to remove"
	case o.dryRun && (o.merged && t.Merged != "" || o.task != "" && !o.merged):
		return "would be removed" + saved
	case t.Merged != "":
		return "trellis cleanup --merged removes it" + saved
	case o.merged:
		return "left as it is: it is not merged; trellis cleanup " + t.ID + " removes it all the same" + saved
	case t.Status == trellis.Review:
		return "stays until it is merged; trellis cleanup " + t.ID + " removes it all the same" + saved
	}
	return "trellis cleanup " + t.ID + " removes it" + saved
}

func (t cleanedWorktree) remark() string {
	var words []string
	switch {
	case t.Gone:
		words = append(words, "its folder is gone")
	case t.Dirty:
		words = append(words, "not all is committed")
	}
	if t.Loose {
		words = append(words, "its commits are on no branch")
	}
	if t.Locked != "" {
		words = append(words, "locked: "+t.Locked)
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, "; ") + ")"
}

func proofWords(p git.Proof) string {
	return map[git.Proof]string{git.InHistory: "its commits", git.InPatches: "its patches, rebased or picked", git.InOne: "squashed"}[p]
}

// ignoredIn names files of worktrees that git ignores.
func ignoredIn(l delivery.Leftover) string {
	var all []string
	for _, t := range l.Trees {
		all = append(all, t.Ignored...)
	}
	return some(all)
}

// some are the first of a list.
func some(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// size is a number of bytes in few letters: 950 B, 12.3 KB, 1.2 GB.
func size(n int64) string {
	const step = 1000
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KB", "MB", "GB", "TB"} {
		if value /= step; value < step {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
