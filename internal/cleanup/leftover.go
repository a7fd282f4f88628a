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
	Branch string         `json:"branch"`      // "" when there is none any more
	Tip    string         `json:"-"`           // where it ends
	Remote string         `json:"remote"`      // the remote that has the branch too, as far as is known here: cleaning up asks nobody
	There  string         `json:"-"`           // where it ends there
	Base   string         `json:"base_branch"` // the branch that the work is meant for
	Trees  []Tree         `json:"worktrees"`   // the task's own, and its fresh checkout if a run was cut off in it
	Proof  git.Proof      `json:"merged"`      // ancestor, patches, squash; "": it is not
	In     string         `json:"into"`        // which base has the work: Base, or a remote-tracking branch of it
	Why    string         `json:"why"`         // there is no proof
	Named  string         `json:"-"`           // a commit of a base that names the task all the same, "" for none
	Keeps  string         `json:"keeps"`       // why nothing can be taken away; "" when it can
	Hint   string         `json:"hint"`        // what to do about it
	Task   *taskdir.Task  `json:"-"`

	bases   []base
	swapped string // its worktree, where something else is in the place of it
}

// base is a branch in which work may be.
type base struct{ name, commit string }

// Nothing reports whether there is nothing to take away.
func (l Leftover) Nothing() bool {
	return l.Branch == "" && len(l.Trees) == 0 && l.Task.WorktreePath == ""
}

// Size is what it takes on the disk.
func (l Leftover) Size() (bytes int64) {
	for _, t := range l.Trees {
		bytes += t.Size
	}
	return bytes
}

// Saves reports whether something is to be saved before it is taken away.
func (l Leftover) Saves() bool {
	if slices.ContainsFunc(l.Trees, func(t Tree) bool { return t.Dirty || t.Loose }) {
		return true
	}
	return l.Proof != git.InHistory && l.Tip != "" && l.Tip != l.Task.Pipeline.BaseCommit
}

// RemoteDelete is the command that deletes the branch of the remote, unless it moved since.
func (l Leftover) RemoteDelete() string {
	name := l.Task.BranchName()
	return fmt.Sprintf("git push --force-with-lease=%s %s %s", trellis.ShellWord(name+":"+l.There), trellis.ShellWord(l.Remote), trellis.ShellWord(":"+name))
}
