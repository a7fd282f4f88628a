package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/share"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Team is this checkout as one of several that share their tasks.
type Team = share.Team

// NoTeam is the remote name that means that tasks are shared with nobody.
const NoTeam = "none"

// Sharing is the sharing of a project's tasks with other machines.
type Sharing struct{ p *Project }

// SharingOf returns the sharing of a project.
func SharingOf(p *Project) Sharing { return Sharing{p} }

// ShareThrough shares the project's tasks through a remote from now on, whatever its settings say; with [NoTeam], through none.
func (h Sharing) ShareThrough(ctx context.Context, remote string) error {
	if err := h.checkRemote(ctx, remote); err != nil {
		return err
	}
	h.p.sharedRemote = remote
	if remote == NoTeam {
		return share.Forget(h.p.Root)
	}
	return nil
}

// checkRemote returns an error, naming the existing remotes, if no remote has this name. An address is accepted.
func (h Sharing) checkRemote(ctx context.Context, remote string) error {
	if remote == "" || remote == NoTeam || strings.ContainsAny(remote, ":/.") {
		return nil
	}
	names, err := h.p.Repo.Remotes().Names(ctx)
	switch {
	case err != nil || slices.Contains(names, remote):
		return err
	case len(names) == 0:
		return WithHints(Usagef("there is no remote %s", remote), "git remote add "+trellis.ShellWord(remote)+" URL")
	}
	var hints []string
	for _, name := range names {
		hints = append(hints, "trellis watch --shared "+trellis.ShellWord(name))
	}
	return WithHints(Usagef("there is no remote %s: there is %s", remote, strings.Join(names, ", ")), hints...)
}

// remote returns the remote that tasks are shared through, "" for none: a person's, the settings', or an earlier watcher's.
func (h Sharing) remote(cfg *config.Config) string {
	remembered, set := share.LastRemote(h.p.Root)
	if set {
		remembered = ""
	}
	remote := cmp.Or(h.p.sharedRemote, cfg.Shared.Remote, remembered)
	if remote == NoTeam {
		return ""
	}
	return remote
}

// isShared reports whether what this clone last heard of others still counts. Settings that can't be read don't end the sharing.
func (h Sharing) isShared() bool {
	remembered, set := share.LastRemote(h.p.Root)
	if remembered == "" || !set {
		return remembered != ""
	}
	cfg, problems := h.p.Config()
	return len(trellis.Errors(problems)) > 0 || h.remote(cfg) != ""
}

// otherHolder returns which other machine has a directory's task, according to what this clone last heard; nil if none has.
func (h Sharing) otherHolder(dir string) (*runner.OtherMachineError, error) {
	known, err := h.known(time.Local)
	if known == nil {
		return nil, err
	}
	return known.Elsewhere(dir), nil
}

// spentElsewhere returns what agents of other machines used today, by what this clone last heard. zone is where days begin.
func (h Sharing) spentElsewhere(zone *time.Location) (trellis.Usage, error) {
	known, err := h.known(zone)
	if known == nil {
		return trellis.Usage{}, err
	}
	return known.SpentElsewhere(), nil
}

// known returns what this clone last heard of others; nil if its tasks are not shared.
func (h Sharing) known(zone *time.Location) (*share.Sightings, error) {
	if !h.isShared() {
		return nil, nil
	}
	clone, err := h.p.Repo.CloneID()
	if err != nil {
		return nil, err
	}
	now := time.Now
	if h.p.Env.Now != nil {
		now = h.p.Env.Now
	}
	return share.NewSightings(h.p.Root, clone, func() time.Time { return now().In(zone) }), nil
}

// checkChange returns an error if a task may not be changed here because another machine has it.
func (h Sharing) checkChange(dir string) error {
	by, err := h.otherHolder(dir)
	if err == nil && by != nil {
		err = by
	}
	return err
}

// addToReader makes a reader report what this clone last heard of other machines. What can't be read is not shown.
func (h Sharing) addToReader(r *status.Reader) {
	known, err := h.known(time.Local)
	if known == nil || err != nil {
		return
	}
	r.Given = known.IsShared
	r.Elsewhere = func(dir string) *status.Holder {
		by := known.Elsewhere(dir)
		if by == nil {
			return nil
		}
		return &status.Holder{Host: by.Host, Since: by.Since.UTC().Format(time.RFC3339)}
	}
}

// minSilence is the minimum silence before a machine's tasks are taken over: it has to get a word through to the remote.
const minSilence = 2 * time.Second

// join makes a site share its tasks if sharing is on.
func (h Sharing) join(s *runner.Site, cfg *config.Config) {
	p, remote := h.p, h.remote(cfg)
	if remote == "" {
		return
	}
	clone, err := p.Repo.CloneID()
	if err != nil {
		s.Sharing = failedSharing{err}
		return
	}
	host, err := os.Hostname()
	if err != nil {
		host = clone
	}
	t := share.New(share.Options{
		Set: p.sharedRemote == "" && cfg.Shared.Remote != "",
		Remote: taskref.Remote{Repo: p.Repo, Name: remote, Store: p.Store, Disk: p.Store.Disk, Transcripts: cfg.Shared.Transcripts, Build: s.Build,
			Host: host, Limit: max(cfg.Shared.Silence/2, minSilence), Exclude: pipeline.NeverCommitted(pipeline.Job{Setup: pipeline.Setup{Copy: cfg.Worktree.Copy}}), Places: taskref.Places{Main: p.Root, Worktrees: cfg.Worktree.Dir, Clone: clone}},
		Machine: clone, Host: host, Silence: max(cfg.Shared.Silence, minSilence), Now: func() time.Time { return s.Clock().In(cfg.Shared.Zone()) },
		Adopt: func(dir string) error { s.RecordBrought(dir); return nil },
		Apply: func(dir string, o taskref.Order) error { return applyOrder(s, dir, o) },
		Used:  s.Budgets().Today,
		Tell:  func(task, message string) { s.Tell(runner.Event{Task: task, Message: message}) },
	})
	s.Sharing = t
}

// failedSharing is the sharing of a checkout whose clone id can't be determined: nothing is run there.
type failedSharing struct{ err error }

func (u failedSharing) Elsewhere(string) *runner.OtherMachineError { return nil }
func (u failedSharing) Last(string) bool                           { return false }
func (u failedSharing) SpentElsewhere() trellis.Usage              { return trellis.Usage{} }
func (u failedSharing) Take(context.Context, string, runner.FitCheck) (runner.Lease, error) {
	return nil, u.err
}

// ErrNoTeam means that the tasks of a project are shared with nobody.
var ErrNoTeam = errors.New("the tasks of this repository are shared with no other machine")

// Team returns this checkout's membership in the team that shares its tasks. Without one, the error matches [ErrNoTeam].
func (h Sharing) Team(s *runner.Site) (*Team, error) {
	switch t := s.Sharing.(type) {
	case *share.Team:
		return t, nil
	case failedSharing:
		return nil, t.err
	}
	return nil, WithHints(AsKind(ErrUsage, ErrNoTeam), "trellis config set shared.remote origin", "trellis watch --shared origin")
}

// NotUpdatedError names the tasks that could not be updated to the state on other machines. All others were.
type NotUpdatedError = share.SyncError

// The orders, besides decisions, that machines send each other.
const (
	orderStop   = "stop"
	orderCancel = "cancel"
)

// applyOrder carries out here what a person ordered on another machine.
func applyOrder(s *runner.Site, dir string, o taskref.Order) (err error) {
	decision := proof.Decision(o.What)
	switch {
	case o.What == orderStop:
		return s.Orders().Stop(dir)
	case o.What == orderCancel:
		return s.Orders().Cancel(dir)
	case decision != proof.Approve && decision != proof.Reject:
		return fmt.Errorf("%q is not a known decision", o.What)
	case o.Step != "":
		_, _, err = s.Approvals().DecideStep(dir, proof.Approval{Decision: decision, Step: o.Step, Reason: o.Reason, By: o.By, Hash: o.Hash})
	case decision == proof.Reject:
		err = s.Approvals().Reject(dir, o.By, o.Reason, o.Hash)
	default:
		_, err = s.Approvals().Approve(dir, o.By, o.Hash)
	}
	return err
}

// changeOrSend carries out a person's change of a task: here, followed by telling the team; or, if another machine is at work on the
// task, by sending order to that machine, which sent then says. An order without a What can't be sent.
func (o Orders) changeOrSend(ctx context.Context, s *runner.Site, dir string, order taskref.Order, change func() error) (sent string, err error) {
	t, ok := s.Sharing.(*share.Team)
	if !ok {
		return "", change()
	}
	if s.Event == nil {
		s.Event = func(e runner.Event) { o.p.Env.say("%s", e.Message) }
	}
	err = t.Change(ctx, dir, change)
	by := (*runner.OtherMachineError)(nil)
	if !errors.As(err, &by) || order.What == "" {
		return "", err
	}
	order.ID, order.Task, order.At = strings.ToLower(rand.Text()), filepath.Base(dir), s.Clock()
	if order.By == "" {
		if order.By, err = o.decider(ctx, ""); err != nil {
			return "", err
		}
	}
	if err := t.Ask(ctx, order); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is at work on %s: it was asked to %s it", by.Host, order.Task, order.What), nil
}
