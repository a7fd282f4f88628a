package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// refused runs a command, which has to end with this exit code, and print says and not print not.
func (b *bench) refused(words string, code int, says, not string) {
	b.Helper()
	got, out, errs := b.app.try(strings.Fields(words)...)
	if got != code || !strings.Contains(out+errs, says) || not != "" && strings.Contains(out+errs, not) {
		b.Errorf("%s: exit code %d, want %d with %q and not %q\n%s%s", words, got, code, says, not, out, errs)
	}
}

// Edge C14: for a task that was rejected, or whose planning failed, the next step is to plan it again, not to write prd.md.
func TestAdviceForTasksThatAreNotPlanned(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write(".trellis/rehearsal.yaml", "roles:\n  evaluate: [{answer: {decision: reject, category: unclear, details: what, suggestions: [say what], size: tiny, confidence: 1}}]\n")
	b.do("plan -n note -t backend -r note", command.ExitRejected)
	b.refused("retry note", command.ExitUsage, "is rejected, there is nothing to retry", "prd.md")
	b.refused("retry note", command.ExitUsage, "next: trellis plan --retry ", "prd.md")

	b = newBench(t)
	b.write(".trellis/rehearsal.yaml", "roles:\n  evaluate: [{answer: nonsense}, {answer: nonsense}]\n")
	b.do("plan -n note -t backend -r note", command.ExitPlanner)
	b.refused("start note", command.ExitUsage, "its planning failed with agent_protocol", "write what is wanted")
	b.refused("start note", command.ExitUsage, "next: trellis plan --retry ", "prd.md")
}

// Edge C14: commands for a task in the archive are refused, without saying that a watcher picks it up.
func TestOrdersOfArchivedTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.stand(trellis.Cancelled)
	b.do("task archive note")
	for _, words := range []string{"retry note", "start note", "cancel note", "stop note", "approve note"} {
		b.refused(words, command.ExitUsage, "02-01-note is archived, and nothing runs there", "picks it up")
	}
}

// A completed task can't be cancelled. The next step is to archive it.
func TestCancelOfACompletedTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.stand(trellis.Completed)
	b.refused("cancel note", command.ExitUsage, "02-01-note is completed, there is nothing to cancel\ntrellis: next: trellis task archive 02-01-note\n", "updating")
}

// Edge C14: a task without a branch can be removed, even if its run began before it was rejected.
func TestRemoveOfATaskWithoutABranch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write(".trellis/tasks/02-01-note/"+taskdir.TaskJSON, `{"status": "rejected", "pipeline": {"base_commit": "0123456789012345678901234567890123456789"}}`+"\n")
	b.git("branch feature/note")
	b.refused("task rm note", command.ExitUsage, "02-01-note is rejected and has work on its branch", "")
	b.git("branch -D feature/note")
	b.do("task rm note")
}

// Edge C14: if the script of rehearsal lacks a role, the error is the script's, and is not to be reported as one of Trellis.
func TestRehearsalWithoutARole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write(".trellis/rehearsal.yaml", "roles:\n  implement: [{answer: done}]\n")
	b.refused("start note", command.ExitFailed, "rehearsal.yaml: no call of role check fits the prompt: add one below roles", "report it")
}

// A task's branch can be set as long as it has no work, and again after retry --fresh.
func TestBranchOfATaskThatHasBegun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write(".trellis/config.yaml", "agents: {default: rehearsal}\nworktree: {setup: [\"false\"]}\n")
	b.write(".trellis/rehearsal.yaml", "roles:\n  implement: [{fail: {code: context_overflow}}]\n")
	b.do("start note", command.ExitFailed)
	b.do("task set-branch note feature/one")
	b.refused("task set-branch note master", command.ExitUsage, "branch master is checked out", "")
	b.refused("task set-base-branch note master", command.ExitUsage, "next: trellis retry 02-01-note --fresh", "")
	b.write(".trellis/config.yaml", "agents: {default: rehearsal}\n")
	b.do("retry note")
	b.do("start note", command.ExitFailed)
	b.refused("task set-branch note feature/two", command.ExitDone, "next: trellis retry 02-01-note --fresh", "")
	b.do("retry note")
	b.refused("start note", command.ExitFailed, "the work so far is on feature/one: `trellis task set-branch 02-01-note feature/one` continues there", "")
	b.do("retry note --fresh")
	b.refused("start note", command.ExitFailed, "context_overflow", "worktree_failed")
	b.do("retry note --fresh")
	b.do("task set-base-branch note master")
}

// A copy of a task directory is another task: it does not continue the original's run or block it, and gets its own branch and run.
func TestCopyOfATaskThatHasBegun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write(".trellis/rehearsal.yaml", "roles:\n  implement: [{fail: {code: context_overflow}}]\n")
	b.do("start note", command.ExitFailed)
	if err := os.CopyFS(filepath.Join(b.app.Dir, ".trellis/tasks/02-01-copy"), os.DirFS(filepath.Join(b.app.Dir, ".trellis/tasks/02-01-note"))); err != nil {
		t.Fatal(err)
	}
	b.do("validate note")
	b.do("retry note")
	b.refused("retry copy", command.ExitUnmet, "next: trellis task set-branch 02-01-copy BRANCH", "")
	b.do("task set-branch copy feature/copy")
	b.do("retry copy")
	b.refused("start copy", command.ExitFailed, "-worktrees/feature/copy", "")
	note := filepath.Join(b.app.Dir, ".trellis/tasks/02-01-note")
	if err := os.CopyFS(filepath.Join(b.app.Dir, ".trellis/tasks/02-01-last"), os.DirFS(note)); err != nil {
		t.Fatal(err)
	}
	b.write(".trellis/tasks/02-01-last/task.json", `{"status": "in_progress", "branch": "feature/last"}`)
	b.refused("start last", command.ExitUsage, "is of a run of 02-01-note, of whose directory this is a copy", "")
}

// If the script of rehearsal is missing or can't be read, the error says what to write where, not to install another agent.
func TestRehearsalWithoutAScript(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	for text, says := range map[string]string{"": "rehearsal.yaml: the rehearsal agent plays this file, and it is not there", "roles:\n  check: [{answr: fine}]\n": "rehearsal.yaml:2: field answr not found"} {
		b.write(".trellis/rehearsal.yaml", text)
		if text == "" {
			if err := os.Remove(filepath.Join(b.app.Dir, ".trellis", "rehearsal.yaml")); err != nil {
				t.Fatal(err)
			}
		}
		b.refused("doctor", command.ExitUnmet, says, "no agent can be used")
		b.refused("start note", command.ExitUsage, says, "")
		b.refused("start note", command.ExitUsage, "below Rehearsal", "")
	}
}

// A rejection that would change nothing is refused with the command that ends the task. An approval does not undo an earlier rejection.
func TestDecisionsThatCount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	task := ".trellis/tasks/02-01-note/" + taskdir.TaskJSON
	b.refused("reject note --by ann --reason no", command.ExitUsage, "02-01-note is ready: nobody is asked about its plan\ntrellis: next: trellis cancel 02-01-note\n", "rejected")
	b.write(task, `{"status": "ready", "pipeline": {"approval": {"required": true}}}`)
	b.do("approve note --by ann")
	b.refused("reject note --by ann --reason no", command.ExitUsage, "02-01-note is ready: its plan was approved by ann\n", "rejected")

	b = newBench(t)
	b.hand()
	b.write(task, `{"status": "ready", "pipeline": {"approval": {"required": true}}}`)
	b.do("reject note --by ann --reason no")
	b.refused("status note", command.ExitDone, "status    rejected\n", "")
	b.write(task, `{"status": "waiting", "pipeline": {"approval": {"required": true}}}`)
	b.refused("approve note --by bob", command.ExitUsage, "02-01-note was rejected by ann: no\ntrellis: next: trellis plan --retry 02-01-note --requirement '<revised requirement>'\n", "waits for others")
}

// Approvals are counted by account: a second one under another name does not count, and says why. Commands list those that count.
func TestApproveAgainByTheSameAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write(".trellis/tasks/02-01-note/"+taskdir.TaskJSON, `{"status": "ready", "pipeline": {"approval": {"required": true, "approvers": 2}}}`)
	b.do("watch --once", command.ExitWaiting)
	b.refused("status note", command.ExitDone, "waits for approval (0 of 2)\n", "")
	b.refused("approve note --by ann --key .trellis/workflow.md", command.ExitUsage, "no private key in PEM (PKCS #8)\ntrellis: next: openssl genpkey -algorithm ed25519 -out key.pem\n", "help")
	for range 2 {
		b.refused("approve note --by ann", command.ExitWaiting, "02-01-note has the approval of ann and waits for others\n", "account")
	}
	b.refused("approve note --by bob", command.ExitWaiting, "02-01-note has the approval of ann; that of bob does not count in addition, since it comes from the same account: ", "has the approval of bob")
	for _, words := range []string{"status note", "status", "list"} {
		b.refused(words, command.ExitDone, "approval (1 of 2: ann)", "bob")
	}
	b.refused("review note", command.ExitWaiting, "2 people have to approve\n  - approved so far: ann\n", "bob")
}
