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

// Team is this checkout among others that share their tasks.
type Team = share.Team

// NoTeam is the name of a remote that means that tasks are shared with nobody.
const NoTeam = "none"

// Sharing is whether and how a project shares its tasks with other machines.
type Sharing struct{ p *Project }

// SharingOf is that of a project.
func SharingOf(p *Project) Sharing { return Sharing{p} }

// With has the project share its tasks through a remote from now on, whatever its settings say; with [NoTeam] through none.
func (h Sharing) With(ctx context.Context, remote string) error {
	if err := h.there(ctx, remote); err != nil {
		return err
	}
	h.p.sharedBy = remote
	if remote == NoTeam {
		return share.Forget(h.p.Root)
	}
	return nil
}

// there says that a name is that of no remote, and which there are. An address is none.
func (h Sharing) there(ctx context.Context, remote string) error {
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

// remote is the one through which tasks are shared, "" for none: as a person said, or the settings, or a watcher here before.
func (h Sharing) remote(cfg *config.Config) string {
	remembered, set := share.Remembered(h.p.Root)
	if set {
		remembered = ""
	}
	remote := cmp.Or(h.p.sharedBy, cfg.Shared.Remote, remembered)
	if remote == NoTeam {
		return ""
	}
	return remote
}

// shared reports whether what this clone heard of others still counts. Settings that can't be read end no sharing.
func (h Sharing) shared() bool {
	remembered, set := share.Remembered(h.p.Root)
	if remembered == "" || !set {
		return remembered != ""
	}
	cfg, problems := h.p.Config()
	return len(trellis.Errors(problems)) > 0 || h.remote(cfg) != ""
}

// elsewhere says which other machine has the task of a directory, by what this clone heard last; nil when none has.
func (h Sharing) elsewhere(dir string) (*runner.ElsewhereError, error) {
	known, err := h.known(time.Local)
	if known == nil {
		return nil, err
	}
	return known.Elsewhere(dir), nil
}

// spentElsewhere is what the agents of other machines used today, whose days begin in a time zone, by what this clone heard last.
func (h Sharing) spentElsewhere(zone *time.Location) (trellis.Usage, error) {
	known, err := h.known(zone)
	if known == nil {
		return trellis.Usage{}, err
	}
	return known.SpentElsewhere(), nil
}

// known is what this clone heard of others last; nil when its tasks are not shared.
func (h Sharing) known(zone *time.Location) (*share.Known, error) {
	if !h.shared() {
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
	return share.NewKnown(h.p.Root, clone, func() time.Time { return now().In(zone) }), nil
}

// mayChange says why a task may not be changed here: another machine has it.
func (h Sharing) mayChange(dir string) error {
	by, err := h.elsewhere(dir)
	if err == nil && by != nil {
		err = by
	}
	return err
}

// show has a reader tell what this clone heard of other machines last. What can't be known is not shown.
func (h Sharing) show(r *status.Reader) {
	known, err := h.known(time.Local)
	if known == nil || err != nil {
		return
	}
	r.Given = known.Given
	r.Elsewhere = func(dir string) *status.Holder {
		by := known.Elsewhere(dir)
		if by == nil {
			return nil
		}
		return &status.Holder{Host: by.Host, Since: by.Since.UTC().Format(time.RFC3339)}
	}
}

// leastSilence is the shortest time after which a machine's tasks are taken from it: it has to get a word through to the remote.
const leastSilence = 2 * time.Second

// join has a site share its tasks, where that is asked for.
func (h Sharing) join(s *runner.Site, cfg *config.Config) {
	p, remote := h.p, h.remote(cfg)
	if remote == "" {
		return
	}
	clone, err := p.Repo.CloneID()
	if err != nil {
		s.Sharing = unshared{err}
		return
	}
	host, err := os.Hostname()
	if err != nil {
		host = clone
	}
	t := share.New(share.Options{
		Set: p.sharedBy == "" && cfg.Shared.Remote != "",
		Remote: taskref.Remote{Repo: p.Repo, Name: remote, Store: p.Store, Disk: p.Store.Disk, Transcripts: cfg.Shared.Transcripts, Build: s.Build,
			Host: host, Limit: max(cfg.Shared.Silence/2, leastSilence), Exclude: pipeline.Outside(pipeline.Job{Setup: pipeline.Setup{Copy: cfg.Worktree.Copy}}), Places: taskref.Places{Main: p.Root, Worktrees: cfg.Worktree.Dir, Clone: clone}},
		Machine: clone, Host: host, Silence: max(cfg.Shared.Silence, leastSilence), Now: func() time.Time { return s.Clock().In(cfg.Shared.Zone()) },
		Adopt: func(dir string) error { s.Brought(dir); return nil },
		Apply: func(dir string, o taskref.Order) error { return obey(s, dir, o) },
		Used:  s.Budgets().Today,
		Tell:  func(task, message string) { s.Tell(runner.Event{Task: task, Message: message}) },
	})
	s.Sharing = t
}

// unshared is the sharing of a checkout that can't say which machine it is: nothing is run there.
type unshared struct{ err error }

func (u unshared) Elsewhere(string) *runner.ElsewhereError { return nil }
func (u unshared) Last(string) bool                        { return false }
func (u unshared) SpentElsewhere() trellis.Usage           { return trellis.Usage{} }
func (u unshared) Take(context.Context, string, runner.Fit) (runner.Lease, error) {
	return nil, u.err
}

// ErrNoTeam says that the tasks of a project are shared with nobody.
var ErrNoTeam = errors.New("the tasks of this repository are shared with no other machine")

// Team is this checkout among those that share their tasks. [ErrNoTeam] when there are none.
func (h Sharing) Team(s *runner.Site) (*Team, error) {
	switch t := s.Sharing.(type) {
	case *share.Team:
		return t, nil
	case unshared:
		return nil, t.err
	}
	return nil, WithHints(AsKind(ErrUsage, ErrNoTeam), "trellis config set shared.remote origin", "trellis watch --shared origin")
}

// UnbroughtError says which tasks could not be brought up to what other machines made of them. All others were.
type UnbroughtError = share.UnbroughtError

// The orders that machines send each other, beside decisions.
const (
	orderStop   = "stop"
	orderCancel = "cancel"
)

// obey does here what a person asked for at another machine.
func obey(s *runner.Site, dir string, o taskref.Order) (err error) {
	decision := proof.Decision(o.What)
	switch {
	case o.What == orderStop:
		return s.Orders().Stop(dir)
	case o.What == orderCancel:
		return s.Orders().Cancel(dir)
	case decision != proof.Approve && decision != proof.Reject:
		return fmt.Errorf("nobody here knows what %q is", o.What)
	case o.Step != "":
		_, _, err = s.Approvals().DecideStep(dir, proof.Approval{Decision: decision, Step: o.Step, Reason: o.Reason, By: o.By, Hash: o.Hash})
	case decision == proof.Reject:
		err = s.Approvals().Reject(dir, o.By, o.Reason, o.Hash)
	default:
		_, err = s.Approvals().Approve(dir, o.By, o.Hash)
	}
	return err
}

// shared does something to a task that a person asks for: here, and then the team is told; or, when another machine is at work on
// the task, that one is asked to, and sent says so. An order without a name can't be sent.
func (o Orders) shared(ctx context.Context, s *runner.Site, dir string, order taskref.Order, change func() error) (sent string, err error) {
	t, ok := s.Sharing.(*share.Team)
	if !ok {
		return "", change()
	}
	if s.Event == nil {
		s.Event = func(e runner.Event) { o.p.Env.say("%s", e.Message) }
	}
	err = t.Change(ctx, dir, change)
	by := (*runner.ElsewhereError)(nil)
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
