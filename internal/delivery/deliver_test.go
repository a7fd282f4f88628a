package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// childVar makes the test binary a process that delivers, and may be killed while it does.
const childVar = "TRELLIS_TEST_DELIVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// The parts of the work that work.json does not contain.
const (
	title   = "feat: Say bye"
	summary = "# Say bye\n\ngreet.sh says bye.\n\n## Acceptance Criteria\n\n- [ ] it does\n"
)

// bench is a clone with a bare origin, the branch feature/bye one commit above main, and a forge.
type bench struct {
	*testing.T
	Dir, Bare string
	Host      host
	Env       []string // variables that the delivering process needs besides its own
	D         *delivery.Deliverer
	Work      delivery.Work
	origin    string // the address of origin, as the clone has it
}

func newBench(t *testing.T) *bench { t.Helper(); return newBenchAt(t, onGitHub) }

func newBenchAt(t *testing.T, at place) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, Dir: filepath.Join(root, "repo"), Bare: filepath.Join(root, "bare.git"), origin: "../bare.git"}
	if err := os.MkdirAll(b.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.write("../run/.keep", "")
	b.git("init -q --bare -b main ../bare.git")
	b.git("init -q -b main")
	at.host(b, githubtest.State{Labels: []string{"trellis"}, Users: []string{"bob"}})
	b.git("remote add origin " + b.origin)
	b.commit("first")
	b.git("push -q origin main")
	b.git("checkout -q -b feature/bye")
	b.commit("feat: Say bye")
	b.write(filepath.Join(b.Bare, "hooks/post-receive"), "#!/bin/sh\ncat >> ../received\ntest \"$(cat ../kill)\" = after && kill -9 $(cat ../pid)\nexit 0\n")
	b.D = deliverer(b.Dir, b.environ())
	b.Work = delivery.Work{Path: ".trellis/tasks/02-01-bye", DeliverIn: pipeline.DeliverIn{Task: "02-01-bye", Title: title, Summary: summary,
		Job: pipeline.Job{Branch: "feature/bye", BaseBranch: "main", BaseCommit: b.rev("main"),
			Delivery: wanted()},
		Report: pipeline.Report{Commit: b.rev("feature/bye"), Executed: true, Rounds: 2, Usage: trellis.Usage{Seconds: 3},
			Criteria: []pipeline.CriterionResult{{Criterion: pipeline.Criterion{ID: "A1", Text: "it says bye"}, Verdict: "met", Evidence: "greet.sh:1"}},
			Checks:   pipeline.Checks{Results: []pipeline.CommandResult{{Command: "sh test.sh", Seconds: 0.5}}}}}}
	return b
}

// wanted returns the settings of a delivery.
func wanted() pipeline.DeliverySettings {
	return pipeline.DeliverySettings{PR: true, Draft: true, Labels: []string{"trellis", "nope"}, Reviewers: []string{"bob", "ghost"}}
}

func deliverer(dir string, env []string) *delivery.Deliverer {
	repo, err := git.Open(dir)
	if err != nil {
		panic(err)
	}
	repo.Env = env
	return &delivery.Deliverer{Repo: repo, Forges: forges(dir, env), Dir: filepath.Dir(dir), Disk: &durable.Disk{}}
}

func (b *bench) environ() []string {
	return append(append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"), b.Env...)
}

func (b *bench) git(words string) string {
	b.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, strings.Fields(words)...)...)
	cmd.Dir, cmd.Env = b.Dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("git %s: %v\n%s", words, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b *bench) rev(name string) string { b.Helper(); return b.git("rev-parse " + name) }

// commit makes a commit that has nothing but its message.
func (b *bench) commit(message string) {
	b.Helper()
	b.write("message", message)
	b.git("commit -q --allow-empty -F message")
	if err := os.Remove(filepath.Join(b.Dir, "message")); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) write(name, text string) {
	b.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(b.Dir, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) deliver() delivery.Delivered {
	b.Helper()
	out, err := b.D.Deliver(context.Background(), b.Work)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// fails delivers, and fails the test unless that returns a *flow.Failure with these values, whose detail contains says.
func (b *bench) fails(code string, retryable bool, says string) {
	b.Helper()
	_, err := b.D.Deliver(context.Background(), b.Work)
	var fail *flow.Failure
	if !errors.As(err, &fail) || fail.Code != code || fail.Retryable != retryable || !strings.Contains(fail.Detail, says) {
		b.Errorf("got %v, want %s (retryable %v) with %q", err, code, retryable, says)
	}
}

func (b *bench) received() int {
	data, _ := os.ReadFile(filepath.Join(b.Dir, "../received")) // the file does not exist before the first push
	return strings.Count(string(data), "refs/heads/feature/bye")
}

func (b *bench) prs() []map[string]any { b.Helper(); return b.Host.State(b.T).PRs }

func has(list []string, part string) bool { return strings.Contains(strings.Join(list, "\n"), part) }

func TestDeliver(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		b := newBenchAt(t, at)
		b.write(".github/Pull_Request_Template.md", "## Checklist\n\n- [ ] I read @ann's rules\n")
		got := b.deliver()
		if !got.Pushed || got.Remote != "origin" || got.Number != 1 || got.Into != "main" || got.PRURL != b.prs()[0]["url"] {
			t.Errorf("got %+v", got)
		}
		pr := b.prs()[0]
		if pr["isDraft"] != true || pr["title"] != "feat: Say bye" || pr["headRefOid"] != b.Work.Report.Commit || fmt.Sprint(pr["labels"], pr["reviewRequests"]) != "[trellis] [bob]" {
			t.Errorf("the pull request is %v", pr)
		}
		body := pr["body"].(string)
		for _, want := range []string{"greet.sh says bye.\n", "| A1 | it says bye | must | met | greet.sh:1 |\n", "| `sh test.sh` | 0 | 0.5 |\n", "- Task: `.trellis/tasks/02-01-bye`\n", "- Rounds: 2\n", "- Agents: 3 s, ",
			"<!-- trellis:end -->\n\n## Checklist\n\n- [ ] I read @ann's rules"} {
			if !strings.Contains(body, want) {
				t.Errorf("there is no %q in\n%s", want, body)
			}
		}
		if strings.Contains(body, "executed") || !has(got.Notes, "no label nope: ") || !has(got.Notes, "ghost was not asked") {
			t.Errorf("notes %q, body\n%s", got.Notes, body)
		}
		// A person ticks a box, and another round follows: the pull request is the same, the person's text is kept, ours renewed.
		b.Host.Change(t, func(s *githubtest.State) {
			s.PRs[0]["body"] = "Seen.\r\n" + strings.Replace(strings.ReplaceAll(body, "\n", "\r\n"), "[ ] I read", "[x] I read", 1)
		})
		b.git("commit -q --amend --allow-empty -m second")
		b.Work.Report.Commit, b.Work.Report.Executed = b.rev("HEAD"), false
		if got := b.deliver(); got.Number != 1 || len(b.prs()) != 1 || b.git("ls-remote origin refs/heads/feature/bye") != b.Work.Report.Commit+"\trefs/heads/feature/bye" {
			t.Errorf("got %+v, %v", got, b.prs())
		}
		body = b.prs()[0]["body"].(string)
		if !strings.HasPrefix(body, "Seen.\r\n<!--") || !strings.Contains(body, "[x] I read") || !strings.Contains(body, "**Nothing was executed**") || !strings.Contains(body, b.Work.Report.Commit) || strings.Count(body, "trellis:begin") != 1 {
			t.Errorf("the body is\n%s", body)
		}
		calls := len(b.Host.State(t).Calls)
		b.deliver()
		for _, call := range b.Host.State(t).Calls[calls:] {
			if slices.ContainsFunc(at.writes, func(word string) bool { return has(call, word) }) {
				t.Errorf("nothing changed, and gh was called with %q", call)
			}
		}
		b.Host.Change(t, func(s *githubtest.State) { s.PRs[0]["body"] = "mine" })
		if got := b.deliver(); b.prs()[0]["body"] != "mine" || !has(got.Notes, "left as it is") {
			t.Errorf("got %q, %v", got.Notes, b.prs()[0]["body"])
		}
	})
}

// If something keeps Trellis from delivering, the work does not fail: the result says what to type.
func TestWhatToType(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		for name, c := range map[string]struct {
			do       func(*bench)
			pushed   bool
			note     string
			commands []string
		}{
			"no remote":      {func(b *bench) { b.git("remote remove origin") }, false, "no remote", []string{"git remote add origin URL", "git push origin feature/bye", onGitHub.create}},
			"no means":       {func(b *bench) { b.D.Forges = forges(b.Dir, without(b.environ(), b)) }, true, at.lacks, []string{at.signIn, at.create}},
			"not signed in":  {func(b *bench) { b.Host.Change(b.T, func(s *githubtest.State) { s.SignedOut = true }) }, true, at.strange, []string{at.signIn, at.create}},
			"base not there": {func(b *bench) { b.git("push -q origin main:old :main") }, true, "origin has no branch main", []string{"git push origin main", at.create}},
			"only push":      {func(b *bench) { b.Work.Job.Delivery.PR = false }, true, "", []string{at.create}},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBenchAt(t, at)
				b.git("-C ../bare.git config receive.denyDeleteCurrent ignore")
				c.do(b)
				got := b.deliver()
				if got.Pushed != c.pushed || got.PRURL != "" || len(b.prs()) != 0 || !has(got.Notes, c.note) || strings.Join(got.Commands, "\n") != strings.Join(c.commands, "\n") {
					t.Errorf("got %+v", got)
				}
				if there := b.Bare; c.pushed && b.git("-C "+there+" rev-parse feature/bye") != b.Work.Report.Commit {
					t.Error("it is not pushed")
				}
			})
		}
	})
}

func TestFailures(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		b := newBenchAt(t, at)
		b.git("remote set-url origin http://ann:hunter2@127.0.0.1:1/x.git")
		b.fails("push_failed", true, "127.0.0.1")
		if _, err := b.D.Deliver(context.Background(), b.Work); strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is told: %v", err)
		}
		b.git("remote set-url origin " + b.origin)
		b.write(".git/hooks/pre-push", "#!/bin/sh\necho tests are red >&2\nexit 1\n")
		b.fails("push_failed", false, "tests are red")
		b.write(".git/hooks/pre-push", "#!/bin/sh\n")
		b.Host.Change(t, func(s *githubtest.State) { s.FailFrom, s.FailTo = 1, 2 })
		b.fails("pr_failed", true, at.sick)
		b.fails("pr_failed", true, at.sick)
		if got := b.deliver(); got.Number != 1 || b.received() != 1 {
			t.Errorf("got %+v, pushed %d times", got, b.received())
		}
		b.commit("one more")
		b.fails("push_failed", false, "is not at")
		b.Work.Report.Commit = b.rev("HEAD")
		b.git("branch -f main feature/bye")
		b.fails("empty_diff", false, "main has all")
		b.git("branch -f main HEAD~2")
		b.git("push -q origin feature/bye:main")
		b.fails("empty_diff", false, "origin/main has all")
		b.git("checkout -q --detach")
		b.git("branch -q -D feature/bye")
		b.fails("push_failed", false, "git branch feature/bye "+b.Work.Report.Commit)
	})
}

// After a person closed or merged a pull request, no other one is opened for the same commit.
func TestClosedOrMerged(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		for _, state := range []string{forge.Closed, forge.Merged} {
			b := newBenchAt(t, at)
			b.deliver()
			b.Host.Change(t, func(s *githubtest.State) { s.PRs[0]["state"] = state })
			if got := b.deliver(); got.Number != 1 || len(b.prs()) != 1 || !has(got.Notes, "was "+strings.ToLower(state)) || has(got.Commands, at.reopen) != (state == forge.Closed) {
				t.Errorf("got %+v", got)
			}
			b.commit("one more")
			b.Work.Report.Commit = b.rev("HEAD")
			if got := b.deliver(); got.Number != 2 || len(b.prs()) != 2 || !has(got.Notes, "pull request 1 of this branch was "+strings.ToLower(state)) {
				t.Errorf("got %+v", got)
			}
		}
	})
}

// An open pull request is updated even if its base was renamed, since the rename has changed the pull request, too.
func TestRenamedBase(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		b := newBenchAt(t, at)
		b.git("-C ../bare.git config receive.denyDeleteCurrent ignore")
		b.deliver()
		b.git("push -q origin main:master :main")
		b.Host.Change(t, func(s *githubtest.State) { s.PRs[0]["baseRefName"] = "master" })
		b.commit("one more")
		b.Work.Report.Commit = b.rev("HEAD")
		if got := b.deliver(); got.Number != 1 || len(got.Commands) != 0 || !strings.Contains(b.prs()[0]["body"].(string), b.Work.Report.Commit) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestStacked(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		b := newBenchAt(t, at)
		b.git("branch feature/hello main")
		b.Work.Report.Stacked, b.Work.StackedBranch = "02-01-hello", "feature/hello"
		b.Work.Job.Delivery.Labels, b.Work.Job.Delivery.Reviewers = nil, nil
		if got, err := b.D.Preview(context.Background(), b.Work); err != nil || got.Into != "main" || !has(got.Notes, "shows the work of both") || !strings.Contains(got.Body, "Stacked on `02-01-hello` (`feature/hello`): merge that first.") {
			t.Errorf("got %+v, %v", got, err)
		}
		b.git("push -q origin feature/hello")
		if got := b.deliver(); got.Into != "feature/hello" || b.prs()[0]["baseRefName"] != "feature/hello" || len(got.Notes) != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// A label or a reviewer that a person removed is not added again; what gh refused is tried again.
func TestGivenOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		b := newBenchAt(t, at)
		b.deliver()
		b.Host.Change(t, func(s *githubtest.State) {
			s.PRs[0]["labels"], s.PRs[0]["reviewRequests"], s.Labels = []any{}, []any{}, append(s.Labels, "nope")
		})
		b.deliver()
		if pr := b.prs()[0]; fmt.Sprint(pr["labels"], pr["reviewRequests"]) != "[nope] []" {
			t.Errorf("got %v", pr)
		}
	})
}

func TestPreviewTouchesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		b := newBenchAt(t, at)
		before := b.git("for-each-ref") + b.git("ls-remote origin")
		got, err := b.D.Preview(context.Background(), b.Work)
		if err != nil || got.Remote != "origin" || got.Title != "feat: Say bye" || !strings.Contains(got.Body, "it says bye") || got.Commands[0] != "git push origin feature/bye" {
			t.Errorf("got %+v, %v", got, err)
		}
		if after := b.git("for-each-ref") + b.git("ls-remote origin"); after != before || len(b.Host.State(t).Calls) != 0 {
			t.Errorf("got\n%s\nwas\n%s", after, before)
		}
	})
}

// child delivers the work of work.json, and returns the exit code of the process.
func child(dir string) int {
	data, err := os.ReadFile(filepath.Join(dir, "..", "work.json"))
	if err != nil {
		panic(err)
	}
	var w delivery.Work
	if err := json.Unmarshal(data, &w); err != nil {
		panic(err)
	}
	w.Title, w.Summary, w.Job.Delivery = title, summary, wanted()
	if err := os.WriteFile(filepath.Join(dir, "..", "pid"), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		panic(err)
	}
	if _, err := deliverer(dir, os.Environ()).Deliver(context.Background(), w); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// apart delivers in a separate process, and reports whether that was killed.
func (b *bench) apart() (killed bool) {
	b.Helper()
	data, err := json.Marshal(b.Work)
	if err != nil {
		b.Fatal(err)
	}
	b.write("../work.json", string(data))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(b.environ(), childVar+"="+b.Dir)
	err = cmd.Run()
	return err != nil && cmd.ProcessState.ExitCode() < 0
}

// After a kill before or after any call of gh, or before or after the push reached the remote, the next delivery leaves one
// push and one pull request with all that belongs to it.
func TestKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		once := newBenchAt(t, at)
		once.apart()
		calls := len(once.Host.State(t).Calls)
		if calls != at.calls || once.received() != 1 {
			t.Fatalf("undisturbed, gh is called %d times and %d are pushed", calls, once.received())
		}
		type kill struct {
			name string
			do   func(*bench)
		}
		kills := []kill{
			{"before the push", func(b *bench) {
				b.killBefore(".git/hooks/pre-push")
			}},
			{"after the push", func(b *bench) { b.write("../kill", "after") }},
		}
		for n := 1; n <= calls; n++ {
			if 2 < n && n < calls && !soak.Asked() { // calls for labels and reviewers are alike
				continue
			}
			kills = append(kills, kill{fmt.Sprint("after call ", n), func(b *bench) { b.Host.Change(t, func(s *githubtest.State) { s.After = n }) }})
			if n == 1 || soak.Asked() { // a kill before call n leaves the same state as a kill after call n-1
				kills = append(kills, kill{fmt.Sprint("before call ", n), func(b *bench) { b.Host.Change(t, func(s *githubtest.State) { s.Before = n }) }})
			}
		}
		for _, k := range kills {
			t.Run(k.name, func(t *testing.T) {
				b := newBenchAt(t, at)
				k.do(b)
				if !b.apart() {
					t.Fatal("it was not killed")
				}
				b.write("../kill", "")
				b.Host.Change(t, func(s *githubtest.State) { s.Before, s.After = 0, 0 })
				if b.apart(); len(b.prs()) != 1 || b.received() != 1 {
					t.Fatalf("pushed %d times, and there are %v", b.received(), b.prs())
				}
				if pr := b.prs()[0]; fmt.Sprint(pr["labels"], pr["reviewRequests"]) != "[trellis] [bob]" || pr["headRefOid"] != b.Work.Report.Commit {
					t.Errorf("got %v", pr)
				}
			})
		}
	})
}
