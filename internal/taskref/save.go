package taskref

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// SaveAs is the content of a state besides the task directory.
type SaveAs struct {
	Claim  Claim
	Status trellis.Status
	Until  time.Time
	Why    string // purpose of saving, one line
	Turn   time.Time
	Work   bool    // save the local work; otherwise that of the last state
	Done   []Order // orders that the same push removes from the remote
	Gated  bool    // push nothing if another gated state was pushed since Gate
	Gate   string  // result of [GateOf] before fetching the states that this one must be compatible with
}

// ErrGate means that another machine claimed a task after the states that a claim had to fit were fetched. Nothing was pushed.
var ErrGate = errors.New("another machine claimed a task at the same moment")

// GateOf returns the remote's gate as last fetched: a gated state is saved only if the gate is unchanged.
func GateOf(ctx context.Context, r Remote) (string, error) {
	return r.Repo.Refs().Find(ctx, remoteRefs+strings.TrimPrefix(gateRef, git.OwnPrefix))
}

// Save stores the task in dir on the remote, with the contents of its worktree. last is the state that the remote must have
// until then, "" for none; a *LostError means that it has another, [ErrGate] that a gated state came too late. After any other
// error the remote has the old or the new state; Fetch tells which.
func (r Remote) Save(ctx context.Context, dir, last string, next SaveAs) (State, error) {
	s := State{Task: filepath.Base(dir), Claim: next.Claim, Status: next.Status, Until: next.Until, Turn: next.Turn, At: r.Store.Clock(), By: r.Places.Clone, From: r.Host, Build: r.Build, Spending: r.spending()}
	if !taskdir.ValidID(s.Task) {
		return State{}, fmt.Errorf("saving %s: that is not the name of a task", dir)
	}
	err := r.save(git.Hookless(ctx), dir, last, next, &s)
	if err != nil {
		return State{}, fmt.Errorf("saving %s on %s: %w", s.Task, r.Name, err)
	}
	return s, nil
}

func (r Remote) save(ctx context.Context, dir, last string, next SaveAs, s *State) error {
	files, err := readTaskFiles(dir)
	switch { // after the records, as the work then contains all that they mention; whoever continues checks for more
	case err != nil:
	case next.Work:
		err = r.addWork(ctx, dir, last, s)
	default:
		err = r.copyWork(ctx, last, s)
	}
	if err != nil {
		return &LocalError{err}
	}
	before, err := r.Repo.Refs().Find(ctx, pendingRefs+s.Task)
	if err != nil {
		return err
	}
	message := s.message(string(r.Places.Seal([]byte(next.Why))))
	if s.Commit, err = r.Repo.Trees().CommitFiles(ctx, pendingRefs+s.Task, message, s.At, r.sealFiles(files)); err != nil {
		return err
	}
	*s, _ = parseState(s.Task, s.Commit, message) // as others will read it
	var more []git.RefMove
	if s.Worker == r.Places.Clone && s.Work != "" {
		more = append(more, git.RefMove{Ref: wipRefs + s.Task, To: s.Work, Any: true})
	}
	for _, o := range next.Done {
		more = append(more, git.RefMove{Ref: o.ref(), Any: true})
	}
	if next.Gated {
		gateCommit, err := r.Repo.EmptyCommit(ctx, fmt.Sprintf("trellis: %s claims %s\n\nState: %s\n", trellis.VisibleLine(r.Host), s.Task, s.Commit))
		if err != nil {
			return err
		}
		more = append(more, git.RefMove{Ref: gateRef, To: gateCommit, Was: next.Gate})
	}
	return r.push(ctx, *s, last, before, more)
}

// push moves a task to its next state. If the remote has the previously pending commit before, that was pushed from here.
func (r Remote) push(ctx context.Context, s State, last, before string, more []git.RefMove) error {
	if err := r.Disk.Step("push", runRefs+s.Task); err != nil {
		return err
	}
	push := func(last string) error {
		moves := append([]git.RefMove{{Ref: runRefs + s.Task, To: s.Commit, Was: last}}, more...)
		return r.Repo.Remotes().PushRefs(ctx, r.Name, r.timeout(), moves...)
	}
	err := push(last)
	moved := (*git.RefMovedError)(nil)
	if errors.As(err, &moved) && moved.Now != "" && moved.Now == before {
		err = push(before)
	}
	if errors.As(err, &moved) && moved.Ref == gateRef {
		return ErrGate
	}
	if errors.As(err, &moved) {
		return &LostError{s.Task, moved.Now}
	}
	if err == nil {
		err = r.Disk.Step("note", knownRefs+s.Task)
	}
	if err != nil {
		return err
	}
	return r.setRef(ctx, knownRefs+s.Task, s.Commit)
}

// RenewClaim pushes the state of a task with a renewed claim, and the same directory and work, so that others see that its holder is
// alive. Errors are those of Save.
func (r Remote) RenewClaim(ctx context.Context, s State, claim Claim) (State, error) {
	last := s.Commit
	s.Claim, s.At, s.By, s.From, s.Build, s.Spending = claim, r.Store.Clock(), r.Places.Clone, r.Host, r.Build, r.spending()
	err := r.renew(git.Hookless(ctx), &s, last)
	if err != nil {
		return State{}, fmt.Errorf("renewing the claim of %s on %s: %w", s.Task, r.Name, err)
	}
	return s, nil
}

func (r Remote) renew(ctx context.Context, s *State, last string) error {
	tree, err := r.Repo.Refs().TreeAt(ctx, last)
	if err != nil {
		return err
	}
	before, err := r.Repo.Refs().Find(ctx, pendingRefs+s.Task)
	if err != nil {
		return err
	}
	message := s.message("at work")
	if s.Commit, err = r.Repo.CommitTree(ctx, tree, message); err != nil {
		return err
	}
	*s, _ = parseState(s.Task, s.Commit, message)
	if err := r.setRef(ctx, pendingRefs+s.Task, s.Commit); err != nil {
		return err
	}
	return r.push(ctx, *s, last, before, nil)
}

// addWork sets the branch of the task in dir, and saves the contents of its worktree. If there is no worktree here, the last
// state's work is used.
func (r Remote) addWork(ctx context.Context, dir, last string, s *State) error {
	t, err := r.Store.Load(dir)
	if err != nil {
		return err
	}
	s.Branch = t.BranchName()
	if s.Head, err = r.Repo.Refs().Branch(ctx, s.Branch); err != nil {
		return err
	}
	at, err := r.Repo.Worktrees().ForTask(ctx, t.ID, s.Branch, t.WorktreePath)
	switch {
	case err != nil:
		return err
	case at == nil:
		return r.addBranchOnly(ctx, last, s)
	}
	s.Worker = r.Places.Clone
	if err = r.Repo.Worktrees().RelinkAt(ctx, at.Path); err == nil {
		s.Head, err = r.Repo.Refs().Head(ctx, at.Path)
	}
	if err == nil {
		s.Work, err = snapshot.NewBackups(r.Repo).Backup(ctx, at.Path, wipRefs+s.Task, "trellis: work of "+s.Task, r.Exclude...)
	}
	return err
}

// addBranchOnly sets the branch without a worktree: that of the last state, unless it has new commits here.
func (r Remote) addBranchOnly(ctx context.Context, last string, s *State) error {
	branch, tip := s.Branch, s.Head
	if err := r.copyWork(ctx, last, s); err != nil || tip == "" || tip == s.Head {
		return err
	}
	if s.Head != "" {
		if here, err := r.Repo.Refs().Find(ctx, s.Head); err != nil || here == "" {
			return err
		}
		if within, err := r.Repo.History().IsAncestor(ctx, s.Head, tip); err != nil || !within {
			return err
		}
	}
	s.Branch, s.Head, s.Work, s.Worker = branch, tip, tip, r.Places.Clone
	return nil
}

// copyWork copies the work of the state last.
func (r Remote) copyWork(ctx context.Context, last string, s *State) error {
	s.Branch, s.Head = "", ""
	if last == "" {
		return nil
	}
	text, err := r.Repo.Line(ctx, git.Command{Dir: r.Repo.Main, Args: []string{"show", "--no-patch", "--format=%B", last}})
	if err != nil {
		return err
	}
	if old, ok := parseState(s.Task, last, text); ok {
		s.Branch, s.Head, s.Work, s.Worker = old.Branch, old.Head, old.Work, old.Worker
	}
	return nil
}

// Remove removes a task, its work and its orders from the remote. That it was shared stays known. Errors are those of Save.
func (r Remote) Remove(ctx context.Context, s State) error {
	ctx = git.Hookless(ctx)
	orders, err := r.listRefs(ctx, remoteRefs+"order/"+s.Task+"/")
	if err != nil {
		return err
	}
	moves := []git.RefMove{{Ref: runRefs + s.Task, Was: s.Commit}, {Ref: wipRefs + s.Task, Any: true}}
	for _, o := range orders {
		moves = append(moves, git.RefMove{Ref: git.OwnPrefix + o.ref[len(remoteRefs):], Any: true})
	}
	err = r.Repo.Remotes().PushRefs(ctx, r.Name, r.timeout(), moves...)
	if moved, ok := errors.AsType[*git.RefMovedError](err); ok {
		err = &LostError{s.Task, moved.Now}
	}
	for _, refs := range []string{pendingRefs, wipRefs} {
		if err == nil {
			err = r.deleteRef(ctx, refs+s.Task)
		}
	}
	if err != nil {
		return fmt.Errorf("taking %s off %s: %w", s.Task, r.Name, err)
	}
	return nil
}
