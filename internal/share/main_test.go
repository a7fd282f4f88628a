package share_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/share"
	"github.com/trellis-tasks/trellis/internal/taskref"
)

const task = "02-01-bye"

// Variables of a child that runs tasks as a machine of a team.
const (
	childRuns    = "TRELLIS_TEST_RUNS" // a task directory, or "all": watch all tasks
	childSilence = "TRELLIS_TEST_SILENCE"
)

func TestMain(m *testing.M) { runnertest.Main(m, child) }

// child runs a task as a machine of its team, or watches all tasks. It may die at a step of its journal.
func child(site *runner.Site) (code int, asked bool) {
	if os.Getenv(childRuns) == "" {
		return 0, false
	}
	silence, err := time.ParseDuration(os.Getenv(childSilence))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2, true
	}
	if os.Getenv(childRuns) == "all" {
		fmt.Fprintln(os.Stderr, watchAs(site, silence))
		return 1, true
	}
	join(site, silence)
	res, err := site.TaskRunner().Run(context.Background(), os.Getenv(childRuns), runner.RunOptions{}, nil)
	fmt.Fprintln(os.Stderr, res.Status, err)
	switch {
	case errors.As(err, new(*runner.OtherMachineError)):
		return 11, true
	case err != nil:
		return 1, true
	}
	return 0, true
}

// join makes a site share its tasks through origin.
func join(site *runner.Site, silence time.Duration) *share.Team {
	clone, err := site.Repo.CloneID()
	if err != nil {
		panic(err)
	}
	host := filepath.Base(filepath.Dir(site.Repo.Main))
	t := share.New(share.Options{
		Remote: taskref.Remote{Repo: site.Repo, Name: "origin", Store: site.Store, Disk: site.Store.Disk, Transcripts: true, Host: host,
			Places: taskref.Places{Main: site.Repo.Main, Worktrees: site.Config.Worktree.Dir, Clone: clone}},
		Machine: clone, Host: host, Silence: silence, Now: site.Clock,
		Adopt: func(dir string) error { site.RecordBrought(dir); return nil },
		Apply: func(dir string, o taskref.Order) error {
			if o.What == "stop" {
				return site.Orders().Stop(dir)
			}
			_, err := site.Approvals().Approve(dir, o.By, o.Hash)
			return err
		},
		Used: site.Budgets().Today,
		Tell: func(task, message string) { site.Tell(runner.Event{Task: task, Message: message}) },
	})
	site.Sharing = t
	return t
}

// machine is a clone of the remote, in a separate folder.
type machine struct {
	*runnertest.World
	team *share.Team
}

// net returns the first machine, whose repository has a bare remote.
func net(t *testing.T, script string, silence time.Duration) *machine {
	t.Helper()
	w := runnertest.NewWorld(t, script)
	w.Git("clone", "-q", "--bare", w.Dir, w.Dir+"/../bare.git")
	w.Git("remote", "add", "origin", filepath.Clean(w.Dir+"/../bare.git"))
	return &machine{w, join(w.Site, silence)}
}

// beside returns another machine of the same team.
func (m *machine) beside(name string, silence time.Duration) *machine {
	m.Helper()
	dir := filepath.Join(m.TempDir(), name, "elsewhere")
	gittest.Gone(m.T, filepath.Dir(filepath.Dir(dir)))
	m.Git("clone", "-q", filepath.Join(m.Dir, "../bare.git"), dir)
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	site, err := runnertest.NewSite(dir, env)
	if err != nil {
		m.Fatal(err)
	}
	w := &runnertest.World{T: m.T, Site: site, Dir: dir}
	w.Git("config", "user.name", "Tester")
	w.Git("config", "user.email", "t@example.org")
	site.Event = func(e runner.Event) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if e.Message != "" {
			w.Said = append(w.Said, e.Message)
		}
	}
	return &machine{w, join(site, silence)}
}

func (m *machine) dir() string { return filepath.Join(m.Site.Store.Tasks(), task) }

// begin runs the task in a separate process.
func (m *machine) begin(silence time.Duration, kill int) (*exec.Cmd, *strings.Builder) {
	m.Helper()
	cmd := exec.Command(os.Args[0])
	var said strings.Builder
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // some tests stop it: see internal/proc, guardedCommand
	cmd.Env = append(os.Environ(), runnertest.ChildDir+"="+m.Dir, childRuns+"="+m.dir(), childSilence+"="+silence.String(), runnertest.ChildKill+"="+fmt.Sprint(kill),
		runnertest.ChildLog+"="+filepath.Join(m.Dir, "../steps.log"), "GORACE=atexit_sleep_ms=0", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	return cmd, &said
}

// pull fetches what other machines did.
func (m *machine) pull() []string {
	m.Helper()
	changed, err := m.team.Pull(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	return changed
}

// run runs the task here as soon as no other machine has it, as a watcher would.
func (m *machine) run() runner.Result {
	m.Helper()
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(500 * time.Millisecond) { // another machine's silence causes no event, and each pull starts git
		m.pull()
		if m.team.Elsewhere(m.dir()) != nil && time.Now().Before(end) {
			continue
		}
		res, err := m.Site.TaskRunner().Run(m.Context(), m.dir(), runner.RunOptions{}, nil)
		if errors.Is(err, durable.ErrHeld) && time.Now().Before(end) {
			continue
		}
		if err != nil {
			m.Fatal(err)
		}
		return res
	}
}

// calls counts, by role, the calls of agents on some machines.
func calls(machines ...*machine) map[string]int {
	n := map[string]int{}
	for _, m := range machines {
		data, _ := os.ReadFile(filepath.Join(m.Dir, "../calls.log")) // without the file nobody was called
		for _, role := range strings.Fields(string(data)) {
			n[role]++
		}
	}
	return n
}

// killed reports whether a signal ended a process.
func killed(cmd *exec.Cmd) bool {
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled()
}

// given returns the files of the task with a text in them, as last published or fetched here.
func given(m *machine, said string) []string {
	m.Helper()
	cmd := exec.Command("git", "-C", m.Dir, "grep", "-l", "-F", said, "refs/trellis/known/"+task, "--", ":!*/prompt.md", ":!*/stream.jsonl")
	out, err := cmd.Output()
	if fail := (*exec.ExitError)(nil); errors.As(err, &fail) && fail.ExitCode() == 1 {
		return nil
	}
	if err != nil {
		m.Fatal(err)
	}
	return strings.Fields(string(out))
}

// fits lets a machine take any task.
func fits([]string) (competes bool, err error) { return false, nil }
