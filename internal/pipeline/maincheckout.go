package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ReflogAction returns the text that the git of a task's agents puts in front of its reflog entries, as set by ReflogVariable.
// It tells what agents moved in the main checkout from what people did there meanwhile.
func ReflogAction(task string) string { return "trellis agent of " + task }

// ReflogVariable is the environment variable of git for that text.
const ReflogVariable = "GIT_REFLOG_ACTION"

// mainWatch checks the main checkout before and after an agent's call.
type mainWatch struct {
	place
	checkout agentcall.Checkout
}

// watch fails a call whose agent moved a ref of the main checkout, and says how to undo that. Moves that the reflog does not
// attribute to the agent, and changed files, are only noted and stay: people may be at work there.
func (mw *mainWatch) watch(ctx context.Context, c flow.Call, r agentcall.Request) (agentcall.Recheck, error) {
	first, err := firstResult(mw.task, c, headsFile, maxHeads, func() (h initialRefs, err error) {
		if h.Heads, err = mw.repo.Refs().Heads(ctx); err == nil {
			h.Worktrees, err = mw.worktreeBranches(ctx)
		}
		return h, err
	})
	if err != nil {
		return nil, err
	}
	before, err := mw.checkout.Before(ctx, r.Permission == trellis.PermitRead)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (notes []string, _ *flow.Failure, err error) {
		moves, now, err := mw.repo.Refs().Moved(ctx, first.Heads)
		if err != nil {
			return nil, nil, err
		}
		after, err := mw.checkout.Now(ctx)
		if err != nil {
			return nil, nil, err
		}
		changed := after.Since(before)
		if len(moves) > 0 { // the moves say more than a changed HEAD
			changed = slices.DeleteFunc(changed, func(path string) bool { return path == "HEAD" })
		}
		notes = changedFileNotes(changed, r)
		moves, err = mw.outsideWorktrees(ctx, moves, first.Worktrees)
		moveNotes, fail := mw.attribute(r, moves, now)
		return append(notes, moveNotes...), fail, err
	}, nil
}

// changedFileNotes returns one note for all files, so that a person who edits many leaves room for other notes.
func changedFileNotes(paths []string, r agentcall.Request) []string {
	switch len(paths) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s of the main checkout was changed while %s", paths[0], workingAgent(r))}
	}
	return []string{fmt.Sprintf("%s of the main checkout were changed while %s", strings.Join(shortList(paths), ", "), workingAgent(r))}
}

// workingAgent says which agent was at work.
func workingAgent(r agentcall.Request) string {
	if r.Permission == trellis.PermitRead {
		return fmt.Sprintf("the %s agent, which may only read, was at work", r.Role)
	}
	return fmt.Sprintf("the %s agent was at work: by that, or by somebody else", r.Role)
}

// headsFile is where a call records its initialRefs, for later attempts.
const (
	headsFile = "heads.json"
	maxHeads  = 64 << 20
)

// initialRefs are the tips of branches when a call began, and the branches that were checked out in worktrees of tasks.
type initialRefs struct {
	git.Heads
	Worktrees []string `json:"worktrees"`
}

// outsideWorktrees drops the moves of branches that are, or were when the call began, checked out in worktrees of this task or
// others: an agent may have left its branch after it committed there.
func (mw *mainWatch) outsideWorktrees(ctx context.Context, moves []git.RefChange, first []string) ([]git.RefChange, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	now, err := mw.worktreeBranches(ctx)
	return slices.DeleteFunc(moves, func(m git.RefChange) bool { return slices.Contains(first, m.Ref) || slices.Contains(now, m.Ref) }), err
}

// worktreeBranches returns the branches that are checked out in worktrees of tasks.
func (mw *mainWatch) worktreeBranches(ctx context.Context) (branches []string, err error) {
	trees, err := mw.repo.Worktrees().List(ctx)
	for _, w := range trees {
		if w.Branch != "" && w.Owner() != "" {
			branches = append(branches, w.Branch)
		}
	}
	return branches, err
}

// attribute splits moves: those that the reflog shows to be the agent's are a failure, the others are notes.
func (mw *mainWatch) attribute(r agentcall.Request, moves []git.RefChange, now git.Heads) (notes []string, fail *flow.Failure) {
	own := ReflogAction(mw.task.id())
	byAgent := func(message string) bool { return message == own || strings.HasPrefix(message, own+":") }
	var did, undo []string
	for _, m := range moves {
		what := fmt.Sprintf("%s from %.40s to %.40s", m.Ref, m.Was, m.Now)
		if m.Now == "" {
			what = fmt.Sprintf("%s, which ended in %.40s, away", m.Ref, m.Was)
		}
		if slices.ContainsFunc(m.Said, byAgent) {
			did, undo = append(did, what), append(undo, "`"+mw.undoCommand(m, now)+"`")
			continue
		}
		notes = append(notes, fmt.Sprintf("somebody moved %s in the main checkout while the %s agent was at work (its log says: %s); if it was not you: `%s`", what, r.Role, reflogText(m), mw.undoCommand(m, now)))
	}
	if len(did) > 0 {
		fail = flow.Fail(string(trellis.ProtectedPath), "the %s agent moved %s in the main checkout, where it has nothing to do; see `git -C %s reflog`, and undo it with %s; then `trellis retry %s`",
			r.Role, strings.Join(shortList(did), ", "), trellis.ShellWord(mw.repo.Main), strings.Join(shortList(undo), ", "), mw.task.id())
	}
	return notes, fail
}

func reflogText(m git.RefChange) string {
	if text := strings.TrimSpace(strings.Join(shortList(m.Said), "; ")); text != "" {
		return text
	}
	return "nothing"
}

// undoCommand returns the command that takes a move back, and loses nothing that is not committed.
func (mw *mainWatch) undoCommand(m git.RefChange, now git.Heads) string {
	in := "git -C " + trellis.ShellWord(mw.repo.Main)
	switch {
	case m.Ref == "HEAD":
		return fmt.Sprintf("%s checkout %s", in, trellis.ShellWord(m.Was))
	case m.Ref == now.Branch:
		return fmt.Sprintf("%s reset --keep %s", in, m.Was)
	case m.Now == "":
		return fmt.Sprintf("%s branch %s %s", in, trellis.ShellWord(m.Ref), m.Was)
	}
	return fmt.Sprintf("%s branch -f %s %s", in, trellis.ShellWord(m.Ref), m.Was)
}
