package cleanup

import (
	"fmt"
	"slices"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Leftover is what a task left, and what became of its work. Its JSON is a contract with scripts.
type Leftover struct {
	Dir    string         `json:"dir"`
	ID     string         `json:"id"`
	Status trellis.Status `json:"status"`
	Branch string         `json:"branch"`      // "" if it does not exist any more
	Tip    string         `json:"-"`           // commit at which the branch ends
	Remote string         `json:"remote"`      // remote that has the branch too, as far as is known here: cleaning up asks no remote
	There  string         `json:"-"`           // commit at which the branch ends on Remote
	Base   string         `json:"base_branch"` // the branch that the work is meant for
	Trees  []Tree         `json:"worktrees"`   // the task's own, and its fresh checkout if a run was cut off in it
	Proof  git.Proof      `json:"merged"`      // ancestor, patches, squash; "": the work was not merged
	In     string         `json:"into"`        // base that has the work: Base, or a remote-tracking branch of it
	Why    string         `json:"why"`         // why there is no proof
	Named  string         `json:"-"`           // commit of a base that names the task, without being a proof; "" for none
	Keeps  string         `json:"keeps"`       // why nothing may be removed; "" if it may
	Hint   string         `json:"hint"`        // what to do about it
	Task   *taskdir.Task  `json:"-"`

	bases       []base
	swappedPath string // path of its worktree, if something else is in its place
}

// base is a branch that may have the work.
type base struct{ name, commit string }

// Nothing reports whether there is nothing to remove.
func (l Leftover) Nothing() bool {
	return l.Branch == "" && len(l.Trees) == 0 && l.Task.WorktreePath == ""
}

// Size returns how many bytes it takes on the disk.
func (l Leftover) Size() (bytes int64) {
	for _, t := range l.Trees {
		bytes += t.Size
	}
	return bytes
}

// Saves reports whether something has to be saved before it is removed.
func (l Leftover) Saves() bool {
	if slices.ContainsFunc(l.Trees, func(t Tree) bool { return t.Dirty || t.Loose }) {
		return true
	}
	return l.Proof != git.InHistory && l.Tip != "" && l.Tip != l.Task.Pipeline.BaseCommit
}

// RemoteDeleteCommand returns the command that deletes the branch on the remote, unless it has moved since.
func (l Leftover) RemoteDeleteCommand() string {
	name := l.Task.BranchName()
	return fmt.Sprintf("git push --force-with-lease=%s %s %s", trellis.ShellWord(name+":"+l.There), trellis.ShellWord(l.Remote), trellis.ShellWord(":"+name))
}
