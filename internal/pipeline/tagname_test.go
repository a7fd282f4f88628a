package pipeline

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// taggedBranch returns a job whose branch has one commit of a call, and the tree of that commit. A tag at the base has the name of the branch.
func taggedBranch(t *testing.T, c flow.Call) (b *gittest.Box, j Job, tree string) {
	b = gittest.New(t)
	j = Job{Branch: "feature/x", BaseCommit: b.Git("rev-parse", "HEAD"), Worktree: b.Add("feature/x")}
	b.Write(j.Worktree+"/new.txt", "new\n")
	b.GitIn(j.Worktree, "add", "new.txt")
	b.GitIn(j.Worktree, "commit", "-q", "-m", "work", "-m", callTrailer(c))
	tree = b.GitIn(j.Worktree, "rev-parse", "HEAD^{tree}")
	b.Git("tag", "feature/x", j.BaseCommit)
	b.Git("gc", "-q")
	return b, j, tree
}

// A tag with the name of the task's branch is not what was committed.
func TestTagWithTheNameOfTheBranch(t *testing.T) {
	c := flow.Call{Run: "02-01-x/1", ID: "commit", Attempt: 2}
	b, j, tree := taggedBranch(t, c)
	fresh := &freshVerifier{repo: b.Repo}
	if same, changes, err := fresh.compareCommit(t.Context(), j, tree); !same || err != nil {
		t.Errorf("the verified tree: got %v, %v, %v", same, changes, err)
	}
	if same, changes, err := fresh.compareCommit(t.Context(), j, "another"); same || len(changes) != 1 || err != nil {
		t.Errorf("another tree: got %v, %v, %v, want one change", same, changes, err)
	}
	place := place{repo: b.Repo, task: &taskDir{}}
	cm := &committer{place: place, restorer: &restorer{place}}
	if made, err := cm.earlierCommit(t.Context(), c, commitIn{Job: j}); made != b.Git("rev-parse", "refs/heads/feature/x") || err != nil {
		t.Errorf("the commit of the call: got %q, %v", made, err)
	}
}
