package cli

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// refused runs a command that must end with the code, say what is told and not what is wrong.
func (b *bench) refused(words string, code int, says, not string) {
	b.Helper()
	got, out, errs := b.app.try(strings.Fields(words)...)
	if got != code || !strings.Contains(out+errs, says) || not != "" && strings.Contains(out+errs, not) {
		b.Errorf("%s: exit code %d, want %d with %q and not %q\n%s%s", words, got, code, says, not, out, errs)
	}
}

// Edge C14: a task that was rejected, or whose planning failed, is planned again: nobody is told to write prd.md.
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

// Edge C14: no order reaches a task in the archive, and none says that a watcher picks it up.
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

// Edge C14: a task that was rejected after its run had begun, before there was a branch, has no work on one and can go.
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

// Edge C14: a role that the script of rehearsal lacks is the script's fault, not Trellis'.
func TestRehearsalWithoutARole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hand()
	b.write(".trellis/rehearsal.yaml", "roles:\n  implement: [{answer: done}]\n")
	b.refused("start note", command.ExitFailed, "rehearsal.yaml: no call of role check fits the prompt: add one below roles", "report it")
}

// A no that would change nothing is refused with the command that ends the task, and a yes does not hide an earlier no.
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
	b.refused("approve note --by bob", command.ExitUsage, "02-01-note was rejected by ann: no\ntrellis: next: trellis plan --retry 02-01-note\n", "waits for others")
}
