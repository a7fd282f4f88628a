package delivery_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/gitlab/gitlabtest"
	"github.com/trellis-tasks/trellis/internal/tracker"
)

// host is a fake forge: it keeps pull requests, and can be told to fail.
type host interface {
	Change(testing.TB, func(*githubtest.State))
	State(testing.TB) githubtest.State
}

// place is a forge that deliveries are tested with, and the commands and words that are specific to it.
type place struct {
	name    string
	create  string // command that opens the pull request of a bench
	reopen  string // command that reopens the first pull request
	signIn  string
	lacks   string   // the note if there is no program or token to call the forge with
	strange string   // the note if the account is not accepted
	sick    string   // the error of a server that is out of order
	writes  []string // words of the calls that create or change something
	calls   int      // number of calls of one delivery: a search for the pull request, create, two searches for labels, one label, reviewers
	host    func(*bench, githubtest.State)
}

var onGitHub = place{
	name:   "GitHub",
	create: "gh pr create --draft --base main --head feature/bye --title 'feat: Say bye' --body-file .trellis/tasks/02-01-bye/report.md",
	reopen: "gh pr reopen 1", signIn: "gh auth login", lacks: "there is no gh in PATH", strange: "not signed in", sick: "HTTP 502", writes: []string{"--method=PATCH", "create"}, calls: 7,
	host: func(b *bench, s githubtest.State) {
		gh := githubtest.Install(b, s)
		b.Host, b.Env = gh, gh.Env
	},
}

var onGitLab = place{
	name:   "GitLab",
	create: `glab mr create --draft --target-branch main --source-branch feature/bye --title 'feat: Say bye' --description "$(cat .trellis/tasks/02-01-bye/report.md)"`,
	reopen: "glab mr reopen 1", signIn: "export GITLAB_TOKEN=…", lacks: "there is no token", strange: "does not take the token of GITLAB_TOKEN", sick: "GitLab answers 502", writes: []string{"POST", "PUT"}, calls: 9,
	host: func(b *bench, s githubtest.State) {
		lab := gitlabtest.Serve(b, s, map[string]string{"ann/shop/greet": b.Bare})
		lab.Kill = func() {
			data, err := os.ReadFile(filepath.Join(b.Dir, "../pid"))
			pid, numErr := strconv.Atoi(string(data))
			if err := errors.Join(err, numErr); err != nil {
				b.Error(err)
				return
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // the process may have ended by itself
		}
		b.Host, b.Env, b.origin = lab, []string{labVar + "=" + lab.URL, "GITLAB_TOKEN=" + gitlabtest.Token}, lab.Address("ann/shop/greet")
		b.git("config --add url." + b.Bare + ".insteadOf " + b.origin)
	},
}

// labVar names the variable that has the address of a test's GitLab, for the process that delivers.
const labVar = "TRELLIS_TEST_GITLAB"

// forges returns the forges that an environment has settings for.
func forges(dir string, env []string) delivery.Forges {
	f := delivery.Forges{Env: env}
	for _, kv := range env {
		if site, is := strings.CutPrefix(kv, labVar+"="); is {
			f.GitLab = &tracker.Access{Settings: config.Trackers{GitLab: config.SiteTracker{URL: site}}, Env: env, Dir: dir}
		}
	}
	return f
}

// without returns env without the program and the token that a forge is called with.
func without(env []string, b *bench) []string {
	env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "GITLAB_TOKEN=") })
	return append(env, "PATH="+b.TempDir())
}

// everywhere runs a test with each forge.
func everywhere(t *testing.T, test func(t *testing.T, at place)) {
	t.Parallel()
	for _, at := range []place{onGitHub, onGitLab} {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			test(t, at)
		})
	}
}

// A GitLab that the token is not for does not get it, and another host is not taken for a GitLab: the result says what to type.
func TestForeignGitLab(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, onGitLab)
	b.git("remote set-url origin git@gitlab.acme.example:ann/shop/greet.git")
	b.git("config --add url." + b.Bare + ".insteadOf git@gitlab.acme.example:ann/shop/greet.git")
	got := b.deliver()
	if !got.Pushed || got.PRURL != "" || !has(got.Notes, "is at gitlab.acme.example, which is not the GitLab that there is a token for") || got.Commands[0] != "trellis config set trackers.gitlab.url https://gitlab.acme.example" {
		t.Errorf("got %+v", got)
	}
	if calls := b.Host.State(t).Calls; len(calls) > 0 {
		t.Errorf("somebody was asked: %q", calls)
	}
	b.D.Forges.Env, b.D.Forges.GitLab.Env = []string{"PATH=" + t.TempDir()}, nil
	b.git("remote set-url origin " + b.origin)
	if got := b.deliver(); !got.Pushed || !has(got.Notes, "neither in GITLAB_TOKEN nor by trackers.gitlab.token_command") || got.Commands[0] != onGitLab.signIn {
		t.Errorf("without a token: %+v", got)
	}
	b.git("remote set-url origin git@git.acme.example:ann/shop/greet.git")
	b.git("config --add url." + b.Bare + ".insteadOf git@git.acme.example:ann/shop/greet.git")
	if got := b.deliver(); !has(got.Notes, "there is no gh") {
		t.Errorf("elsewhere: %+v", got)
	}
}

// The template of a project on GitLab is read from the folder in which GitLab has templates.
func TestGitLabTemplate(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, onGitLab)
	b.write(".gitlab/merge_request_templates/Other.md", "not this")
	b.write(".gitlab/merge_request_templates/Default.md", "## Checklist\n")
	if got := b.deliver().Body; !strings.HasSuffix(got, "<!-- trellis:end -->\n\n## Checklist") {
		t.Errorf("got\n%s", got)
	}
}

// Text of people and models has no quick actions, which the forge would carry out in the name of the token's owner.
func TestNoOrders(t *testing.T) {
	everywhere(t, func(t *testing.T, at place) {
		b := newBenchAt(t, at)
		b.Work.Summary = "# Say bye\n\n/merge\n  /approve\n\\/close\n"
		b.deliver()
		if text := fmt.Sprint(b.prs()[0]["body"]); !strings.Contains(text, "/merge") || strings.Contains(text, "\n/") {
			t.Errorf("the text is\n%s", text)
		}
	})
}

// A request that GitLab refuses is not sent again, and one that it may accept later is sent again when GitLab says.
func TestRefusedByGitLab(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault     string
		retryable bool
		wait      time.Duration
	}{{"403", false, 0}, {"429", true, time.Minute}, {"502", true, 0}} {
		b := newBenchAt(t, onGitLab)
		b.Host.Change(t, func(s *githubtest.State) { s.Fault = c.fault })
		b.fails("pr_failed", c.retryable, "GitLab answers "+c.fault)
		_, err := b.D.Deliver(t.Context(), b.Work)
		if fail := (*flow.Failure)(nil); !errors.As(err, &fail) || fail.ResumeAt.Sub(fail.At) != c.wait {
			t.Errorf("%s: got %+v", c.fault, err)
		}
	}
}

// A project that the token can't see does not fail the work: its branch is pushed.
func TestUnseenProject(t *testing.T) {
	t.Parallel()
	b := newBenchAt(t, onGitLab)
	b.Host.Change(t, func(s *githubtest.State) { s.Unknown = true })
	if got := b.deliver(); !got.Pushed || got.PRURL != "" || !has(got.Notes, "has no project ann/shop/greet, or the token of GITLAB_TOKEN can't see it") {
		t.Errorf("got %+v", got)
	}
}

// The command to view a request runs the program of its forge.
func TestViewedWithThePlacesProgram(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://github.com/ann/greet/pull/3":                        "gh pr view --web 3",
		"https://code.example.com/ann/shop/greet/-/merge_requests/3": "glab mr view --web 3",
	} {
		if got := (delivery.PRState{Number: 3, URL: url}).ViewCommand(); got != want {
			t.Errorf("%s: %s, not %s", url, got, want)
		}
	}
}
