package cleanup

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// report is what a cleanup found and did. Its JSON is a contract.
type report struct {
	Tasks     []cleanedTask    `json:"tasks"`
	Orphans   []cleanup.Orphan `json:"orphans"`   // worktrees that belong to no task
	Completed []string         `json:"completed"` // tasks that turned out to be merged
	Size      int64            `json:"size"`      // of all worktrees, in bytes
	Freed     int64            `json:"freed"`

	root string
}

// cleanedTask is what a task left, and what was done to it.
type cleanedTask struct {
	cleanup.Leftover
	Dir     string   `json:"dir"` // relative to the top of the repository
	Size    int64    `json:"size"`
	Saves   bool     `json:"saves"` // a backup is made before the removal
	Removed bool     `json:"removed"`
	Backups []string `json:"backups"` // refs of the backups that were made
	Error   string   `json:"error"`
}

func (r *report) add(l cleanup.Leftover) {
	rel, err := filepath.Rel(r.root, l.Dir)
	if err != nil {
		rel = l.Dir
	}
	r.Tasks = append(r.Tasks, cleanedTask{Leftover: l, Dir: filepath.ToSlash(rel), Size: l.Size(), Saves: l.Saves(), Backups: []string{}})
}

func (r *report) recordRemoval(i int, done cleanup.Removal) {
	t := &r.Tasks[i]
	t.Removed, t.Backups, t.Status = true, append(t.Backups, done.Saved...), done.Status
	if len(done.Completed) > 0 {
		t.Status = trellis.Completed
	}
}

func (r *report) complete() *report {
	r.Tasks, r.Orphans, r.Completed = append([]cleanedTask{}, r.Tasks...), append([]cleanup.Orphan{}, r.Orphans...), append([]string{}, r.Completed...)
	for _, t := range r.Orphans {
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

// print writes the report for people.
func (r *report) print(w io.Writer, o options) error {
	r.complete()
	var b strings.Builder
	for _, t := range r.Tasks {
		t.print(&b, r.root, o)
	}
	for _, t := range r.Orphans {
		fmt.Fprintf(&b, "%s  %s\n  %s; next: %s\n", app.ShortPath(r.root, t.Path), text.Bytes(t.Size), t.Why, t.Next)
	}
	switch {
	case b.Len() == 0:
		b.WriteString("nothing is left of any task\n")
	case r.Freed > 0:
		fmt.Fprintf(&b, "freed %s of %s\n", text.Bytes(r.Freed), text.Bytes(r.Size))
	default:
		fmt.Fprintf(&b, "%s in all\n", text.Bytes(r.Size))
	}
	_, err := io.WriteString(w, trellis.Visible(b.String()))
	return err
}

func (t cleanedTask) print(b *strings.Builder, root string, o options) {
	fmt.Fprintf(b, "%s  %s  %s\n", t.ID, t.Status, text.Bytes(t.Size))
	row := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	if t.Branch != "" {
		row("branch", "%s", t.Branch)
	}
	for _, tree := range t.Trees {
		row("worktree", "%s%s", app.ShortPath(root, tree.Path), worktreeRemark(tree))
		if len(tree.Ignored) > 0 {
			row("ignored", "%s (by git; in no backup)", text.JoinFirst(tree.Ignored, 5))
		}
		if len(tree.Made) > 0 {
			row("made", "%s (ignored by git and in no backup; by their names, a build makes them again)", text.JoinFirst(tree.Made, 5))
		}
	}
	if t.Proof != "" {
		row("merged", "into %s (%s)", t.In, proofWords(t.Proof))
	} else {
		row("merged", "no: %s", t.Why)
	}
	if t.Remote != "" && t.Proof != "" {
		row("remote", "%s has the branch too, and keeps it: %s", t.Remote, t.RemoteDeleteCommand())
	} else if t.Remote != "" {
		row("remote", "%s has the branch too", t.Remote)
	}
	row("cleanup", "%s", t.cleanupState(o))
	for _, ref := range t.Backups {
		row("backup", "%s", ref)
	}
}

// cleanupState says what was done to the task's worktree and branch, or would be.
func (t cleanedTask) cleanupState(o options) string {
	saved := ""
	if t.Saves {
		saved = ", after a backup"
	}
	switch {
	case t.Removed && t.Branch == "" && len(t.Trees) == 0:
		return "there was nothing to remove"
	case t.Removed:
		return "removed" + saved
	case t.Error != "":
		return "left as it is: " + t.Error
	case t.Keeps != "":
		return strings.TrimSuffix("left as it is: "+t.Keeps+"; "+t.Hint, "; ")
	case t.Branch == "" && len(t.Trees) == 0:
		return "there is nothing to remove"
	case o.dryRun && (o.merged && t.Proof != "" || o.task != "" && !o.merged):
		return "would be removed" + saved
	case t.Proof != "":
		return "trellis cleanup --merged removes it" + saved
	case o.merged:
		return "kept (not merged); trellis cleanup " + trellis.ShellWord(t.ID) + " removes it anyway" + saved
	case t.Status == trellis.Review:
		return "kept (not merged); trellis cleanup " + trellis.ShellWord(t.ID) + " removes it anyway" + saved
	}
	return "trellis cleanup " + trellis.ShellWord(t.ID) + " removes it" + saved
}

func worktreeRemark(t cleanup.Tree) string {
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
