package runnertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Variables of a child, which runs one task of a repository and dies at a step of its journal or its proofs.
const (
	ChildDir  = "TRELLIS_TEST_DIR"
	ChildTask = "TRELLIS_TEST_TASK"
	ChildKill = "TRELLIS_TEST_KILL" // number of the step to die at; 0: none
	ChildLog  = "TRELLIS_TEST_LOG"  // file that the steps are written to
	ChildPR   = "TRELLIS_TEST_PR"   // not "": with a pull request
	ChildOnto = "TRELLIS_TEST_ONTO" // delivery.update; unset: none
)

// child does the work of such a child. other does what else a package asks of its children, and reports whether it was asked.
func child(dir string, other func(*runner.Site) (code int, asked bool)) int {
	site, err := NewSite(dir, os.Environ())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	site.Config.Delivery.PR, site.Config.Delivery.Update = os.Getenv(ChildPR) != "", os.Getenv(ChildOnto)
	kill, _ := strconv.Atoi(os.Getenv(ChildKill))
	log, err := os.OpenFile(os.Getenv(ChildLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var steps atomic.Int64
	site.Disk = &durable.Disk{Fault: func(step, path string) error {
		if name := filepath.Base(path); name != "journal.jsonl" && name != "proofs.jsonl" && os.Getenv(ChildAny) == "" {
			return nil
		}
		n := steps.Add(1)
		fmt.Fprintln(log, step)
		if n == int64(kill) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}}
	if script := os.Getenv(ChildScript); script != "" {
		Commanded(site, script, "events")
		site.Config.Limits.DayTokens, _ = strconv.ParseInt(os.Getenv(ChildDay), 10, 64)
	}
	if os.Getenv(ChildAny) != "" {
		site.Store.Disk = site.Disk
	}
	if other != nil {
		if code, asked := other(site); asked {
			return code
		}
	}
	res, err := site.Starter().Start(context.Background(), os.Getenv(ChildTask), runner.RunOptions{})
	if err == nil && res.Status == trellis.Waiting { // a step asks for a person
		_, _, err = site.Approvals().DecideStep(res.Dir, proof.Approval{Step: "ask", Decision: proof.Approve, By: "ann"})
		if err == nil {
			res, err = site.Starter().Start(context.Background(), res.Dir, runner.RunOptions{})
		}
	}
	if err != nil || res.Status != trellis.Review {
		fmt.Fprintln(os.Stderr, res.Status, res.Failure, err)
		return 1
	}
	return 0
}

// Child runs the task in a separate process and reports whether that was killed, and otherwise how many steps there were. They may be
// fewer than in another run: the journal is synced again when its mailbox is checked in between, which happens every five seconds.
func (w *World) Child(dir string, kill int) (killed bool, steps int) {
	w.Helper()
	log := filepath.Join(w.Dir, "..", "steps.log")
	os.Remove(log)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), w.Env...), ChildDir+"="+w.Dir, ChildTask+"="+dir, ChildKill+"="+strconv.Itoa(kill), ChildLog+"="+log, "GORACE=atexit_sleep_ms=0",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return true, 0
	}
	if err != nil {
		w.Fatalf("kill %d: %v\n%s", kill, err, out)
	}
	return false, strings.Count(w.Read("../steps.log"), "\n")
}

// Counted returns the script Working with edit roles that also leave a mark outside the repository at each call.
func Counted() string {
	script := Working
	for _, role := range []string{"implement", "debug"} {
		script = strings.Replace(script, role+":\n    - files:", role+":\n    - run: [\"echo "+role+" >> $TRELLIS_REPO/../calls.log\"]\n      files:", 1)
	}
	return script
}

func (w *World) Calls() map[string]int {
	w.Helper()
	n := map[string]int{}
	for _, role := range strings.Fields(w.Read("../calls.log")) {
		n[role]++
	}
	return n
}
