package delivery_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup/cleanuptest"
	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/gitlab/gitlabtest"
	"github.com/trellis-tasks/trellis/taskdir"
)

type house struct{ *cleanuptest.House }

func newHouse(t *testing.T) house { t.Helper(); return house{cleanuptest.New(t)} }

// refresh updates the tasks from the remote and the forges f.
func (h house) refresh(f *delivery.Forges) delivery.Refreshed {
	h.Helper()
	out, err := (&delivery.Remote{Cleaner: h.Cleaner, Forges: f}).Refresh(h.Context(), "")
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// A task in review follows its pull request; that of another task, whose branch had the same name, is ignored.
func TestRefreshByPullRequest(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Git("init", "-q", "--bare", "../far")
	h.Git("remote", "add", "origin", "../far")
	var prs []map[string]any
	for i, name := range []string{"merged", "closed", "open", "draft", "other", "none"} {
		id := "02-01-" + name
		h.Done(id)
		pr := map[string]any{"number": i + 1, "url": "https://github.example/pull/" + name, "state": map[string]string{"merged": "MERGED", "closed": "CLOSED", "other": "MERGED"}[name],
			"headRefName": "feature/" + name, "headRefOid": h.Git("rev-parse", "feature/"+name), "isDraft": name == "draft", "reviewDecision": "APPROVED",
			"statusCheckRollup": []any{map[string]any{"name": "ci", "status": "COMPLETED", "conclusion": "FAILURE"}}}
		switch name {
		case "open", "draft":
			pr["state"] = "OPEN"
		case "other":
			pr["headRefOid"] = h.Git("rev-parse", "main")
		case "none":
			continue
		}
		prs = append(prs, pr)
	}
	gh := &delivery.Forges{Env: append(h.Env, githubtest.Install(t, githubtest.State{PRs: prs}).Env...)}
	for range 2 {
		out := h.refresh(gh)
		if len(out.Notes) > 0 {
			t.Errorf("got %q", out.Notes)
		}
	}
	for name, want := range map[string]string{
		"merged": "completed merged https://github.example/pull/merged merged  ", "closed": "cancelled cancelled https://github.example/pull/closed closed  ",
		"open": "review delivered https://github.example/pull/open open failed approved", "draft": "review delivered https://github.example/pull/draft draft failed approved",
		"other": "review delivered ", "none": "review delivered ",
	} {
		task := h.Load("02-01-" + name)
		got := string(task.Status) + " " + string(task.Pipeline.Outcome) + " " + task.PRURL
		if p, err := delivery.ReadPull(task.Dir); err != nil {
			t.Error(err)
		} else if p != nil {
			got += " " + p.State + " " + p.Checks + " " + p.Review
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	h.Keeps("02-01-merged", true, "not in main") // merged according to its pull request, but not according to git
}

// A task in review follows its merge request on a GitLab, too.
func TestRefreshByMergeRequest(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Git("init", "-q", "--bare", "../far")
	lab := gitlabtest.Serve(t, githubtest.State{}, map[string]string{"ann/greet": filepath.Join(h.Dir, "../far")})
	h.Git("remote", "add", "origin", lab.Address("ann/greet"))
	h.Git("config", "url.../far.insteadOf", lab.Address("ann/greet"))
	for i, name := range []string{"merged", "closed", "open"} {
		h.Done("02-01-" + name)
		state := map[string]string{"merged": "MERGED", "closed": "CLOSED", "open": "OPEN"}[name]
		lab.Change(t, func(s *githubtest.State) {
			s.PRs = append(s.PRs, map[string]any{"number": i + 1, "url": fmt.Sprintf("%s/ann/greet/-/merge_requests/%d", lab.URL, i+1), "state": state, "headRefName": "feature/" + name, "headRefOid": h.Git("rev-parse", "feature/"+name),
				"pipeline": map[string]any{"id": i + 1, "status": "running"}})
		})
	}
	env := slices.Clip(append(h.Env, labVar+"="+lab.URL))
	none := forges(h.Dir, env)
	if out := h.refresh(&none); len(out.Notes) > 0 || len(lab.State(t).Calls) > 0 {
		t.Errorf("without a token: %+v, asked %q", out, lab.State(t).Calls)
	}
	f := forges(h.Dir, append(env, "GITLAB_TOKEN="+gitlabtest.Token))
	if out := h.refresh(&f); len(out.Notes) > 0 || strings.Join(out.Completed, " ") != "02-01-merged" || strings.Join(out.Cancelled, " ") != "02-01-closed" || len(out.Open) != 1 {
		t.Errorf("got %+v", out)
	}
	if p, err := delivery.ReadPull(h.Load("02-01-open").Dir); err != nil || p == nil || p.State != "open" || p.Checks != forge.Pending || p.URL != lab.URL+"/ann/greet/-/merge_requests/3" {
		t.Errorf("got %+v, %v", p, err)
	}
	wrong := forges(h.Dir, append(env, "GITLAB_TOKEN=glpat-wrong"))
	if out := h.refresh(&wrong); len(out.Notes) != 1 || !strings.HasSuffix(out.Notes[0], "does not take the token of GITLAB_TOKEN: pull requests were not looked at; next: export GITLAB_TOKEN=…") || !out.Silent {
		t.Errorf("with a wrong token: %+v", out)
	}
	lab.Change(t, func(s *githubtest.State) {
		jobs := make([]any, 2001)
		for i := range jobs {
			jobs[i] = map[string]any{"id": i + 1, "name": "test", "status": "success"}
		}
		s.PRs[2]["jobs"] = jobs
	})
	if out := h.refresh(&f); len(out.Notes) != 1 || !strings.HasPrefix(out.Notes[0], "02-01-open: GitLab has more than 2000 checks of commit ") {
		t.Errorf("with more checks than are read: %+v", out)
	}
}

// Without gh, an account or a remote, the state of a task comes from git alone, and a forge that can't be asked is a note.
func TestRefreshByGit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Done("02-01-open")
	none := &delivery.Forges{Env: []string{"PATH=" + t.TempDir()}}
	if out := h.refresh(none); len(out.Notes)+len(out.Completed) > 0 {
		t.Errorf("without a remote: got %+v", out)
	}
	h.Git("clone", "-q", "--bare", h.Dir, "../far")
	h.Git("remote", "add", "origin", "../far")
	h.Done("02-01-there")
	h.Git("push", "-q", "origin", "feature/there:main") // merged on the remote, but not fetched yet
	h.Git("update-ref", "-d", "refs/remotes/origin/main")
	if out := h.refresh(none); strings.Join(out.Completed, " ") != "02-01-there" || len(out.Notes) > 0 {
		t.Errorf("merged in the remote: got %+v", out)
	}
	signedOut := &delivery.Forges{Env: append(h.Env, githubtest.Install(t, githubtest.State{SignedOut: true}).Env...)}
	if out := h.refresh(signedOut); len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "not signed in") {
		t.Errorf("signed out: got %+v", out)
	}
	h.Git("config", "branch.main.remote", "gone") // a remote that does not exist: only the pull request is unknown
	known := forges(h.Dir, append(h.Env, labVar+"=https://gitlab.example"))
	if out := h.refresh(&known); len(out.Notes) == 0 || h.Load("02-01-open").Status != "review" {
		t.Errorf("a remote that is not configured: got %+v", out)
	}
	h.Git("config", "--unset", "branch.main.remote")
	h.Git("remote", "set-url", "origin", "../nowhere")
	if out := h.refresh(none); len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "fetching from origin") || h.Load("02-01-open").Status != "review" {
		t.Errorf("a remote that is gone: got %+v", out)
	}
}

// Work that was edited when it was merged is not taken for merged, but a note says how to mark it as merged.
func TestRefreshOfAnEditedSquash(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, id := range []string{"02-01-edited", "02-01-edited-more", "02-01-open"} {
		h.Done(id)
	}
	h.Git("merge", "-q", "--squash", "feature/edited")
	h.Write("edited.txt", "otherwise\n")
	h.Git("add", "-A")
	h.Git("commit", "-q", "-m", "feat: edited (#1)\n\n* feat: edited\n\nTrellis-Task: 02-01-edited\nTrellis-Call: x\n\n* by hand")
	out := h.refresh(nil)
	if len(out.Completed) > 0 || len(out.Notes) != 1 || !strings.HasPrefix(out.Notes[0], "02-01-edited: its changes are not in main as they are, but ") || !strings.HasSuffix(out.Notes[0], "`trellis task archive 02-01-edited` completes it") {
		t.Errorf("got %+v", out)
	}
	if _, err := h.Cleaner.Store.Archive(h.TaskDir("02-01-edited")); err != nil {
		t.Fatal(err)
	}
	if out := h.refresh(nil); len(out.Notes) > 0 {
		t.Errorf("archived: got %+v", out)
	}
}

// onLab returns a house whose origin is a project on a GitLab, with a task in review and its open merge request for each name.
func onLab(t *testing.T, names ...string) (house, *gitlabtest.Lab, []string) {
	t.Helper()
	h := newHouse(t)
	h.Git("init", "-q", "--bare", "../far")
	lab := gitlabtest.Serve(t, githubtest.State{}, map[string]string{"ann/greet": filepath.Join(h.Dir, "../far")})
	h.Git("remote", "add", "origin", lab.Address("ann/greet"))
	h.Git("config", "url.../far.insteadOf", lab.Address("ann/greet"))
	for i, name := range names {
		h.Done("02-01-" + name)
		lab.Change(t, func(s *githubtest.State) {
			s.PRs = append(s.PRs, map[string]any{"number": i + 1, "url": fmt.Sprintf("%s/ann/greet/-/merge_requests/%d", lab.URL, i+1), "state": "OPEN", "headRefName": "feature/" + name, "headRefOid": h.Git("rev-parse", "feature/"+name),
				"pipeline": map[string]any{"id": i + 1, "status": "failed"}})
		})
	}
	return h, lab, append(h.Env, labVar+"="+lab.URL)
}

// A remote that can't be asked does not affect the tasks of other remotes.
func TestRefreshOfTwoForges(t *testing.T) {
	t.Parallel()
	h, lab, env := onLab(t, "b", "c")
	h.Git("remote", "rename", "origin", "lab")
	h.Git("branch", "next")
	h.Git("config", "branch.next.remote", "lab")
	h.Git("init", "-q", "--bare", "../hub")
	h.Git("remote", "add", "origin", "../hub")
	h.Done("02-01-a")
	for _, id := range []string{"02-01-b", "02-01-c"} {
		if _, err := h.Cleaner.Store.Update(h.TaskDir(id), func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("base_branch", "next"); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir() // without gh
	git, err := exec.LookPath("git")
	if err == nil {
		err = os.Symlink(git, filepath.Join(bin, "git"))
	}
	if err != nil {
		t.Fatal(err)
	}
	f := forges(h.Dir, append(env, "GITLAB_TOKEN="+gitlabtest.Token, "PATH="+bin))
	if out := h.refresh(&f); len(out.Open) != 2 || len(out.Notes) > 0 || out.Silent {
		t.Errorf("got %+v, asked %q", out, lab.State(t).Calls)
	}
	if _, err := h.Cleaner.Store.Update(h.TaskDir("02-01-a"), func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.Set("pr_url", "https://github.example/pull/1")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if out := h.refresh(&f); len(out.Open) != 2 || len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "there is no gh in PATH") || !out.Silent {
		t.Errorf("got %+v", out)
	}
}

// A server is asked for all tasks with one token, and not again after it asked to wait or gave no answer.
func TestRefreshAsksOnce(t *testing.T) {
	t.Parallel()
	h, lab, env := onLab(t, "a", "b", "c")
	printed := filepath.Join(t.TempDir(), "printed")
	f := forges(h.Dir, env)
	f.GitLab.Settings.GitLab.TokenCommand = []string{"/bin/sh", "-c", "echo " + gitlabtest.Token + "; echo once >>" + printed}
	if out := h.refresh(&f); len(out.Open) != 3 || len(out.Notes) > 0 {
		t.Fatalf("got %+v", out)
	}
	if said, err := os.ReadFile(printed); err != nil || string(said) != "once\n" {
		t.Errorf("the command ran: %q, %v", said, err)
	}
	for _, c := range []struct {
		fault string
		calls int
		says  string
	}{{"429", 1, "it asks to wait 1m0s"}, {"cut", 1, "no answer"}, {"502", 3, "answers 502"}} {
		lab.Change(t, func(s *githubtest.State) { s.Fault, s.Calls = c.fault, nil })
		out := h.refresh(&f)
		if calls := lab.State(t).Calls; len(calls) != c.calls || len(out.Notes) != c.calls || !strings.Contains(out.Notes[0], c.says) || !out.Silent {
			t.Errorf("%s: got %+v, asked %q", c.fault, out, calls)
		}
	}
}

// A task that can't be changed here does not keep the others from being checked, and is not a reason to check less often.
func TestRefreshOfOneThatIsHeld(t *testing.T) {
	t.Parallel()
	h, _, env := onLab(t, "a", "b")
	h.Cleaner.Store.CheckChange = func(dir string) error {
		if filepath.Base(dir) == "02-01-a" {
			return errors.New("another machine is at work on it")
		}
		return nil
	}
	f := forges(h.Dir, append(env, "GITLAB_TOKEN="+gitlabtest.Token))
	out := h.refresh(&f)
	if len(out.Open) != 2 || len(out.Notes) != 1 || !strings.HasPrefix(out.Notes[0], "02-01-a: ") || out.Silent || h.Load("02-01-b").PRURL == "" {
		t.Errorf("got %+v", out)
	}
}

// The last known state of a pull request is kept, with its time, while its current state can't be read.
func TestSeenLastStays(t *testing.T) {
	t.Parallel()
	h, lab, env := onLab(t, "a")
	f := forges(h.Dir, append(env, "GITLAB_TOKEN="+gitlabtest.Token))
	h.refresh(&f)
	was, err := delivery.ReadPull(h.TaskDir("02-01-a"))
	if err != nil || was == nil || was.Checks != forge.Failed || len(was.Failing) != 1 {
		t.Fatalf("got %+v, %v", was, err)
	}
	h.Cleaner.Now = func() time.Time { return time.Date(2026, 2, 4, 4, 5, 6, 0, time.UTC) }
	lab.Change(t, func(s *githubtest.State) { s.Calls, s.FailFrom, s.FailTo = nil, 2, 99 })
	if out := h.refresh(&f); len(out.Open) > 0 || len(out.Notes) != 1 {
		t.Errorf("got %+v", out)
	}
	if now, err := delivery.ReadPull(h.TaskDir("02-01-a")); err != nil || !reflect.DeepEqual(now, was) {
		t.Errorf("got %+v, %v, want %+v", now, err, was)
	}
}

// GitHub is not asked again either after it asked to wait or gave no answer, which gh only reports in words.
func TestRefreshLeavesGitHubAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Git("init", "-q", "--bare", "../far")
	h.Git("remote", "add", "origin", "../far")
	for _, name := range []string{"a", "b", "c"} {
		h.Done("02-01-" + name)
	}
	gh := githubtest.Install(t, githubtest.State{})
	f := &delivery.Forges{Env: append(h.Env, gh.Env...)}
	for _, c := range []struct {
		fault string
		notes int
		says  string
	}{{"403", 1, "rate limit exceeded"}, {"429", 1, "secondary rate limit"}, {"away", 1, "error connecting"}, {"502", 3, "HTTP 502"}} {
		gh.Change(t, func(s *githubtest.State) { s.Fault = c.fault })
		if out := h.refresh(f); len(out.Notes) != c.notes || !strings.Contains(out.Notes[0], c.says) || !out.Silent {
			t.Errorf("%s: got %+v", c.fault, out)
		}
	}
}
