package taskref_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// pushed returns the files of the state on the remote, by path.
func (n *net) pushed() map[string]string {
	n.Helper()
	files := map[string]string{}
	ref := "refs/trellis/run/" + task
	for name := range strings.SplitSeq(n.box.GitIn(n.bare, "ls-tree", "-r", "--name-only", ref), "\n") {
		out, err := n.box.Try(n.bare, "cat-file", "blob", ref+":"+name)
		if err != nil {
			n.Fatal(err)
		}
		files[name] = out
	}
	return files
}

// No pushed file names a folder of the machine, except for files that are bound by a hash or that people wrote. Nor does the
// commit, and no file that is meant for one machine is pushed.
func TestNoPathIsPushed(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a := n.machine("a")
	a.create()
	s, err := a.remote.Save(t.Context(), a.taskDir(), "", taskref.SaveAs{Work: true, Claim: a.claim(), Why: "the run in " + a.tree() + "\n\nHead: x"})
	if err != nil {
		t.Fatal(err)
	}
	frozen := map[string]bool{"prd.md": true, "run/1/implement#1/1/answer.md": true, "run/1/plan#1/made.json": true}
	for name, text := range n.pushed() {
		if got := strings.Contains(text, a.root); got != frozen[name] {
			t.Errorf("%s names the folder: %v, want %v", name, got, frozen[name])
		}
		if strings.Contains(name, "lock") || strings.Contains(name, "heads") || strings.HasSuffix(name, ".gitignore") {
			t.Errorf("%s is of the machine alone", name)
		}
	}
	said := n.box.GitIn(n.bare, "cat-file", "commit", s.Commit)
	if strings.Contains(said, a.root) || strings.Contains(said, "\nHead") || !strings.Contains(said, "committer trellis <trellis@localhost>") {
		t.Errorf("its commit says %s", said)
	}
	if strings.Contains(said, "\nparent") {
		t.Errorf("a state keeps those before it: %s", said)
	}
}

// Without transcripts, what agents were told and wrote stays on the machine, even after another machine had the task.
func TestWithoutTranscripts(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.remote.Transcripts = false
	a.create()
	a.file("run/1/implement#1/1/stream.jsonl", "{}\n")
	s := a.save("")
	for name := range n.pushed() {
		if strings.Contains(name, "prompt.md") || strings.Contains(name, "stream.jsonl") {
			t.Errorf("%s was pushed", name)
		}
	}
	b.bring(b.fetch())
	if a.differs(s) || b.differs(s) {
		t.Error("transcripts count as a difference")
	}
	b.file("report.md", "done\n")
	b.save(s.Commit)
	if kept := a.bring(a.fetch()); kept != "" {
		t.Errorf("kept: %s", kept)
	}
	if got := a.read("run/1/implement#1/1/stream.jsonl"); got != "{}\n" {
		t.Errorf("the transcript is %q", got)
	}
}

// Of two machines that save over the same state, one gets a *LostError, and nothing of it is pushed.
func TestLost(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.create()
	first := a.save("")
	b.bring(b.fetch())
	b.file("report.md", "of b\n")
	second := b.save(first.Commit)
	a.file("report.md", "of a\n")
	_, err := a.remote.Save(t.Context(), a.taskDir(), first.Commit, taskref.SaveAs{Work: true, Claim: a.claim(), Why: "too late"})
	lost := (*taskref.LostError)(nil)
	if !errors.Is(err, taskref.ErrLost) || !errors.As(err, &lost) || lost.Now != second.Commit {
		t.Errorf("saving over it: %v", err)
	}
	if _, err := a.remote.RenewClaim(t.Context(), first, a.claim()); !errors.Is(err, taskref.ErrLost) {
		t.Errorf("beating over it: %v", err)
	}
	if _, err := a.remote.Save(t.Context(), a.taskDir(), "", taskref.SaveAs{Work: true}); !errors.Is(err, taskref.ErrLost) {
		t.Errorf("saving as if nothing were there: %v", err)
	}
	if err := a.remote.Remove(t.Context(), first); !errors.Is(err, taskref.ErrLost) {
		t.Errorf("dropping it: %v", err)
	}
	if got := n.pushed()["report.md"]; got != "of b\n" {
		t.Errorf("the remote has the report %q", got)
	}
	if known, err := a.remote.Known(t.Context(), task); err != nil || known != first.Commit {
		t.Errorf("known is %s, %v", known, err)
	}
	kept := a.bring(a.fetch())
	if got := a.Git("show", kept+":.trellis/tasks/"+task+"/report.md"); got != "of a" {
		t.Errorf("kept: %q", got)
	}
	list, err := cleanup.Backups{Store: a.remote.Store, Repo: a.remote.Repo}.List(t.Context(), task)
	if err != nil || len(list) != 1 || !strings.HasPrefix(list[0].Restore, "git restore ") {
		t.Errorf("it comes back by %+v, %v", list, err)
	}
	if err := b.remote.Remove(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if out := n.box.GitIn(n.bare, "for-each-ref", "refs/trellis"); out != "" {
		t.Errorf("dropped, and the remote has %s", out)
	}
	if _, err := a.remote.Save(t.Context(), a.taskDir(), second.Commit, taskref.SaveAs{Work: true}); !errors.Is(err, taskref.ErrLost) {
		t.Errorf("saving what is gone: %v", err)
	}
	if states, orders, err := a.remote.Fetch(t.Context()); err != nil || len(states)+len(orders) > 0 {
		t.Errorf("fetched %+v, %+v, %v", states, orders, err)
	}
}

// If many machines claim a task at the same time, one gets it.
func TestOneWins(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	first := n.machine("first")
	first.create()
	s := first.save("")
	var all sync.WaitGroup
	results := make(chan error, 4)
	for i := range cap(results) {
		m := n.machine(fmt.Sprint("m", i))
		m.bring(m.fetch())
		all.Go(func() {
			_, err := m.remote.RenewClaim(t.Context(), s, m.claim())
			results <- err
		})
	}
	all.Wait()
	close(results)
	won := 0
	for err := range results {
		if err == nil {
			won++
		} else if !errors.Is(err, taskref.ErrLost) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d have it", won)
	}
}

// RenewClaim changes who has a task, and nothing else.
func TestBeat(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.create()
	s := a.save("")
	for range 2 {
		got, err := a.remote.RenewClaim(t.Context(), s, taskref.Claim{Machine: "m2", Host: "h2\nBranch: x\x1b[2J", Since: time.Unix(1700000001, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if got.Commit == s.Commit || a.Git("rev-parse", got.Commit+"^{tree}") != a.Git("rev-parse", s.Commit+"^{tree}") {
			t.Errorf("it went from %s to %s", s.Commit, got.Commit)
		}
		if !reflect.DeepEqual(got, b.fetch()) || got.Claim.Machine != "m2" || got.Branch != "" || got.Status != trellis.InProgress {
			t.Errorf("others see %+v, it is %+v", b.fetch(), got)
		}
		s = got
	}
	if b.bring(s) != "" || b.differs(s) {
		t.Error("what is brought is not what was saved")
	}
}

// If the remote can't be reached, or refuses, the task is not lost, and saving continues as soon as the remote is back.
func TestRemoteIsAway(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a := n.machine("a")
	a.create()
	s := a.save("")
	fails := func(how string) {
		t.Helper()
		if _, err := a.remote.Save(t.Context(), a.taskDir(), s.Commit, taskref.SaveAs{Work: true}); err == nil || errors.Is(err, taskref.ErrLost) {
			t.Errorf("%s: saving: %v", how, err)
		}
		if _, err := a.remote.RenewClaim(t.Context(), s, a.claim()); err == nil || errors.Is(err, taskref.ErrLost) {
			t.Errorf("%s: beating: %v", how, err)
		}
	}
	away := n.bare + ".away"
	if err := os.Rename(n.bare, away); err != nil {
		t.Fatal(err)
	}
	fails("it is gone")
	if _, _, err := a.remote.Fetch(t.Context()); err == nil {
		t.Error("it is gone, and was fetched from")
	}
	if err := os.Rename(away, n.bare); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(n.bare, "hooks", "pre-receive")
	a.Write(hook, "#!/bin/sh\necho not today; exit 1\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	fails("it says no")
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	a.save(s.Commit)
}

// After a kill between the push and its record, the next save recognizes the pushed state as its own and continues from it.
func TestUnheardPush(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a := n.machine("a")
	a.create()
	s := a.save("")
	killed := errors.New("killed")
	a.remote.Disk = &durable.Disk{Fault: func(step, _ string) error {
		if step == "note" {
			return killed
		}
		return nil
	}}
	a.file("report.md", "1\n")
	if _, err := a.remote.Save(t.Context(), a.taskDir(), s.Commit, taskref.SaveAs{Work: true, Why: "unheard"}); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	a.remote.Disk = nil
	a.file("report.md", "2\n")
	next := a.save(s.Commit)
	if got := a.fetch(); !reflect.DeepEqual(got, next) {
		t.Errorf("the remote has %+v, want %+v", got, next)
	}

	a.remote.Disk = &durable.Disk{Fault: func(step, _ string) error { return map[string]error{"note": killed}[step] }}
	if _, err := a.remote.RenewClaim(t.Context(), next, a.claim()); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	a.remote.Disk = nil
	got := a.fetch()
	if known, err := a.remote.Known(t.Context(), task); err != nil || known != got.Commit || known == next.Commit {
		t.Errorf("known is %s (%v), the remote has %s", known, err, got.Commit)
	}
}

// No hook of the repository runs when a state is pushed.
func TestNoHookRuns(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a := n.machine("a")
	a.create()
	for _, hook := range []string{"pre-push", "reference-transaction", "post-index-change"} {
		a.Hook(hook, "echo "+hook+" >> "+a.root+"/ran; exit 1")
	}
	a.Git("config", "push.followTags", "true")
	a.Git("config", "push.gpgSign", "if-asked")
	s := a.save("")
	if _, err := a.remote.RenewClaim(t.Context(), s, a.claim()); err != nil {
		t.Error(err)
	}
	a.file("report.md", "not of that state\n")
	a.bring(a.fetch())
	if text, err := os.ReadFile(filepath.Join(a.root, "ran")); err == nil {
		t.Errorf("hooks ran: %s", text)
	}
}

// Orders reach the machine that has the task, and are removed by the save that answers them.
func TestOrders(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	a, b := n.machine("a"), n.machine("b")
	a.create()
	s := a.save("")
	stop := taskref.Order{ID: "stop-1", Task: task, What: "stop", By: "ann", Reason: "two\n\nlines: x", At: time.Unix(1700000000, 0).UTC()}
	other := taskref.Order{ID: "approve-1", Task: task, What: "approve", Hash: "sha256:x"}
	for _, o := range []taskref.Order{stop, other} {
		if err := b.remote.Send(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.remote.Send(t.Context(), taskref.Order{ID: "stop-1", Task: task, What: "start"}); err == nil {
		t.Error("an order was replaced")
	}
	if err := b.remote.Send(t.Context(), taskref.Order{ID: "../x", Task: task, What: "start"}); err == nil {
		t.Error("an order has a path for its name")
	}
	_, orders, err := a.remote.Fetch(t.Context())
	if err != nil || len(orders) != 2 || orders[0] != other || orders[1] != stop {
		t.Fatalf("got %+v, %v", orders, err)
	}
	gone := taskref.Order{ID: "gone", Task: task}
	if s, err = a.remote.Save(t.Context(), a.taskDir(), s.Commit, taskref.SaveAs{Work: true, Claim: a.claim(), Done: []taskref.Order{stop, gone}}); err != nil {
		t.Fatal(err)
	}
	_, orders, err = b.remote.Fetch(t.Context())
	if err != nil || len(orders) != 1 || orders[0] != other {
		t.Errorf("left: %+v, %v", orders, err)
	}
	if got := a.fetch(); !reflect.DeepEqual(got, s) {
		t.Errorf("saved %+v, the remote has %+v", s, got)
	}
}
