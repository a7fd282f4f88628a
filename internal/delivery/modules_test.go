package delivery_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/gitlab/gitlabtest"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// newModularBench returns a bench whose work has a commit in the submodule libs/cli, which has a bare origin, too.
func newModularBench(t *testing.T) *bench { t.Helper(); return newModularBenchAt(t, onGitHub) }

func newModularBenchAt(t *testing.T, at place) *bench {
	t.Helper()
	b := newBenchAt(t, at)
	cli := filepath.Join(filepath.Dir(b.Dir), "cli.git")
	b.git("init -q --bare -b main ../cli.git")
	b.git("push -q ../cli.git main")
	b.git("-c protocol.file.allow=always submodule --quiet add " + cli + " libs/cli")
	b.git("-C libs/cli checkout -q -b feature/bye")
	b.git("-C libs/cli commit -q --allow-empty -m part")
	b.git("add -A")
	b.git("commit -q --amend -m whole")
	b.write(filepath.Join(cli, "hooks/post-receive"), "#!/bin/sh\ncat >> ../received-cli\ntest \"$(cat ../kill)\" = cli && kill -9 $(cat ../pid)\nexit 0\n")
	b.Work.Report.Commit, b.Work.Job.Modules = b.rev("feature/bye"), []string{"libs/cli"}
	b.Work.Job.Delivery.Labels, b.Work.Job.Delivery.Reviewers = nil, nil
	return b
}

// linked fails the test unless each repository has one pull request, which names that of the other, and got one push.
func (b *bench) linked() {
	b.Helper()
	prs := b.prs()
	if len(prs) != 2 || path.Base(fmt.Sprint(prs[0]["repository"])) != "cli" || path.Base(fmt.Sprint(prs[1]["repository"])) != "greet" {
		b.Fatalf("there are %v", prs)
	}
	if got, want := prs[0]["headRefOid"], b.git("-C libs/cli rev-parse feature/bye"); got != want || prs[1]["headRefOid"] != b.Work.Report.Commit {
		b.Errorf("they end in %v and %v, want %s and %s", got, prs[1]["headRefOid"], want, b.Work.Report.Commit)
	}
	if text := fmt.Sprint(prs[0]["body"]); !strings.Contains(text, fmt.Sprintf("Merge this before %s, and", prs[1]["url"])) || !strings.Contains(text, "- Task: `.trellis/tasks/02-01-bye`") || strings.Contains(text, "greet.sh says bye") {
		b.Errorf("the submodule's says\n%s", text)
	}
	if text := fmt.Sprint(prs[1]["body"]); !strings.Contains(text, fmt.Sprintf("Merge first: %s of the submodule `libs/cli`.", prs[0]["url"])) {
		b.Errorf("the whole's says\n%s", text)
	}
	data, _ := os.ReadFile(filepath.Join(b.Dir, "../received-cli")) // the file does not exist before the first push
	if got := strings.Count(string(data), "refs/heads/feature/bye"); got != 1 || b.received() != 1 {
		b.Errorf("the submodule was pushed %d times, the whole %d times", got, b.received())
	}
}

// The merge request of a submodule is opened at the origin of the submodule: the GitLab of the superproject, or another place.
func TestModulesOnGitLab(t *testing.T) {
	t.Parallel()
	b := newModularBenchAt(t, onGitLab)
	lab := b.Host.(*gitlabtest.Lab)
	bare := filepath.Join(filepath.Dir(b.Dir), "cli.git")
	lab.Projects["ann/cli"] = bare
	b.git("-C libs/cli remote set-url origin " + lab.Address("ann/cli"))
	b.git("-C libs/cli config url." + bare + ".insteadOf " + lab.Address("ann/cli"))
	for range 2 {
		if got := b.deliver(); len(got.Parts) != 1 || got.Parts[0].Number != 1 || got.Number != 1 || len(got.Commands) != 0 {
			t.Errorf("got %+v", got)
		}
		b.linked()
	}
	if got := b.prs()[0]["url"]; got != lab.URL+"/ann/cli/-/merge_requests/1" {
		t.Errorf("it is at %v", got)
	}
	b.git("-C libs/cli remote set-url origin " + bare)
	if got := b.deliver(); !has(got.Notes, "no pull request of libs/cli was opened: there is no gh") && !has(got.Notes, "no pull request of libs/cli was opened: gh is not signed in") && !has(got.Notes, "no pull request of libs/cli was opened: no remote") {
		t.Errorf("elsewhere: %q", got.Notes)
	}
}

func TestModules(t *testing.T) {
	t.Parallel()
	b := newModularBench(t)
	if got, err := b.D.Preview(context.Background(), b.Work); err != nil || len(b.prs()) != 0 || len(got.Parts) != 1 || got.Parts[0].Into != "main" || len(got.Commands) != 4 ||
		!strings.HasPrefix(got.Commands[1], "(cd libs/cli && gh pr create --draft --base main --head feature/bye --title 'feat: Say bye' ") || !strings.Contains(got.Body, "Merge first: branch `feature/bye` of the submodule `libs/cli`.") {
		t.Errorf("it is foretold as %+v, %v", got, err)
	}
	for range 2 {
		got := b.deliver()
		if len(got.Parts) != 1 || got.Parts[0].Number != 1 || got.Number != 2 || len(got.Commands) != 0 {
			t.Errorf("got %+v", got)
		}
		b.linked()
		if r, err := delivery.ReadRecord(b.D.Dir); err != nil || r.Modules["libs/cli"] != b.prs()[0]["url"] {
			t.Errorf("kept is %+v, %v", r, err)
		}
	}
	b.Host.Change(t, func(s *githubtest.State) { s.PRs[0]["state"] = "MERGED" })
	b.git("-C libs/cli push -q origin feature/bye:main")
	if got := b.deliver(); len(b.prs()) != 2 || strings.Contains(fmt.Sprint(b.prs()[1]["body"]), "Merge first") || got.Parts[0].Into != "" {
		t.Errorf("got %+v, %v", got, b.prs()[1]["body"])
	}
}

// After a person closed the pull request of a submodule, no other one is opened, even for a newer commit.
func TestClosedModule(t *testing.T) {
	t.Parallel()
	b := newModularBench(t)
	b.deliver()
	b.Host.Change(t, func(s *githubtest.State) { s.PRs[0]["state"] = "CLOSED" })
	b.git("-C libs/cli commit -q --allow-empty -m more")
	b.git("add -A")
	b.git("commit -q -m more")
	b.Work.Report.Commit = b.rev("feature/bye")
	got := b.deliver()
	if len(b.prs()) != 2 || !strings.Contains(strings.Join(got.Notes, "\n"), "pull request 1 of libs/cli was closed: no other one is opened") || strings.Join(got.Commands, "\n") != "(cd libs/cli && gh pr reopen 1)" {
		t.Errorf("got %q, %q, there are %v", got.Notes, got.Commands, b.prs())
	}
}

// A pull request merged with commits that people pushed on top of the work counts as that of the work: no other one is opened.
func TestMergedModuleOfPeople(t *testing.T) {
	t.Parallel()
	b := newModularBench(t)
	b.deliver()
	b.git("clone -q -b feature/bye ../cli.git ../eve")
	b.git("-C ../eve commit -q --allow-empty -m theirs")
	b.git("-C ../eve push -q")
	b.Host.Change(t, func(s *githubtest.State) {
		s.PRs[0]["state"], s.PRs[0]["headRefOid"] = "MERGED", b.git("-C ../eve rev-parse HEAD")
	})
	if got := b.deliver(); len(b.prs()) != 2 || !has(got.Notes, "pull request 1 of libs/cli was merged: no other one is opened") {
		t.Errorf("got %q, there are %v", got.Notes, b.prs())
	}
}

// The base of a submodule's pull request is the branch that the work is stacked on, or else the branch that .gitmodules names.
func TestModuleBase(t *testing.T) {
	t.Parallel()
	for want, do := range map[string]func(*bench){
		"next": func(b *bench) {
			b.git("-C libs/cli push -q origin main:next")
			b.git("config -f .gitmodules submodule.libs/cli.branch next")
			b.git("commit -qam next")
			b.Work.Report.Commit = b.rev("HEAD")
		},
		"feature/hello": func(b *bench) {
			b.git("-C libs/cli push -q origin main:feature/hello")
			b.Work.Report.Stacked, b.Work.StackedBranch = "02-01-hello", "feature/hello"
		},
		"": func(b *bench) { // .gitmodules names a branch that does not exist
			b.git("config -f .gitmodules submodule.libs/cli.branch gone")
			b.git("commit -qam gone")
			b.Work.Report.Commit = b.rev("HEAD")
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			b := newModularBench(t)
			do(b)
			got := b.deliver()
			if got.Parts[0].Into != want || want != "" && b.prs()[0]["baseRefName"] != want || want == "" && !has(got.Notes, "its origin has no branch gone") {
				t.Errorf("got %+v, %v", got, b.prs())
			}
		})
	}
}

// If the pull request of a submodule can't be opened, its command is shown, and the superproject is delivered all the same.
func TestModuleWithoutForge(t *testing.T) {
	t.Parallel()
	b := newModularBench(t)
	b.Host.Change(t, func(s *githubtest.State) { s.Elsewhere = []string{"cli"} })
	if got := b.deliver(); got.Number != 1 || !has(got.Notes, "no pull request of libs/cli was opened") || len(got.Commands) != 1 || !has(got.Commands, "(cd libs/cli && gh pr create") {
		t.Errorf("got %+v", got)
	}
	b = newModularBench(t)
	b.D.Forges.Env = []string{"PATH=" + t.TempDir()}
	if got := b.deliver(); !got.Pushed || len(got.Commands) != 3 || got.Commands[0] != "gh auth login" || !strings.HasPrefix(got.Commands[1], "(cd libs/cli && ") || !strings.HasPrefix(got.Commands[2], "gh pr create") {
		t.Errorf("got %+v", got)
	}
	b = newModularBench(t)
	b.Host.Change(t, func(s *githubtest.State) { s.FailFrom, s.FailTo = 2, 2 })
	b.fails("pr_failed", true, "the submodule libs/cli: gh pr create")
	b.deliver()
	b.linked()
}

// After a kill at a call of gh, or at a push, the next delivery has the same result. It tests a few calls; all with TRELLIS_SOAK.
func TestModulesKilled(t *testing.T) {
	t.Parallel()
	once := newModularBench(t)
	once.apart()
	once.linked()
	calls := len(once.Host.State(t).Calls) // list and create twice, five for labels and reviewers of the superproject, an edit of the submodule's
	if calls != 10 {
		t.Fatalf("undisturbed, gh is called %d times", calls)
	}
	kills := map[string]func(*bench){
		"after the push of the part":   func(b *bench) { b.write("../kill", "cli") },
		"after the push of the whole":  func(b *bench) { b.write("../kill", "after") },
		"before the push of the part":  func(b *bench) { b.killBefore(".git/modules/libs/cli/hooks/pre-push") },
		"before the push of the whole": func(b *bench) { b.killBefore(".git/hooks/pre-push") },
	}
	for n := 1; n <= calls; n++ {
		if !soak.Asked() && (testing.Short() || n != 4) {
			continue
		}
		if soak.Asked() {
			kills[fmt.Sprint("before call ", n)] = func(b *bench) { b.Host.Change(b.T, func(s *githubtest.State) { s.Before = n }) }
		}
		kills[fmt.Sprint("after call ", n)] = func(b *bench) { b.Host.Change(b.T, func(s *githubtest.State) { s.After = n }) }
	}
	for name, do := range kills {
		t.Run(name, func(t *testing.T) {
			b := newModularBench(t)
			do(b)
			if !b.apart() {
				t.Fatal("it was not killed")
			}
			b.write("../kill", "")
			b.Host.Change(t, func(s *githubtest.State) { s.Before, s.After = 0, 0 })
			b.apart()
			b.linked()
		})
	}
}

// killBefore installs a pre-push hook that kills the delivering process.
func (b *bench) killBefore(hook string) {
	root := filepath.Dir(b.Dir)
	b.write(hook, fmt.Sprintf("#!/bin/sh\ntest -s %[1]s/kill || exit 0\nkill -9 $(cat %[1]s/pid)\nexit 1\n", root))
	b.write("../kill", "before")
}
