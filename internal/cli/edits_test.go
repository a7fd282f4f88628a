package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// edit is something that people or other tools do to a task.
type edit struct {
	name  string
	at    string // the phase in which a command does it; "" before the start
	do    string // shell, in the main checkout; $T is the task directory, $W the worktree
	code  int    // exit code of the start
	is    string // status after the start, with the code of the failure, as in failed/invalid_task
	then  string // shell: what people do next
	ends  string // status after that; "": the same
	check string // shell: what must hold at the end
}

// editPhases are the phases in which a command can do an edit: the setup of the worktree, a check, an agent, the command of a
// criterion, a git hook.
var editPhases = []string{"prepare", "implement", "check", "verify", "debug", "accept", "commit", "final-verify"}

// newEditWorld creates a task in which a command of each phase does the edit of that phase.
func newEditWorld(t *testing.T, trellis string, e edit) *gitWorld {
	t.Helper()
	w := newGitWorld(t, trellis)
	root := filepath.Dir(w.Dir)
	w.Env = append(w.Env, "T=.trellis/tasks/02-01-bye", "W="+filepath.Join(root, "repo-worktrees", "feature", "bye"), "R="+root)
	w.write("../at", `phase=$(sed -n 's/.*"phase": *"\([a-z-]*\)".*/\1/p' `+w.path(".trellis/tasks/02-01-bye/task.json")+`)
test -e "`+root+`/edits/$phase" || exit 0
mv "`+root+`/edits/$phase" "`+root+`/done-$phase"
cd "`+w.Dir+`" && unset GIT_DIR GIT_INDEX_FILE GIT_PREFIX GIT_REFLOG_ACTION && sh -e "`+root+`/done-$phase"
`)
	at := "sh " + root + "/at"
	config := "agents: {default: rehearsal}\nverify: [\"sh test.sh; c=$?; " + at + "; exit $c\"]\nworktree: {setup: [\"" + at + "\"]}\n"
	if e.at == "accept" { // otherwise verify runs the commands in its fresh checkout
		config += "verify_fresh: false\n"
	}
	w.write(".trellis/config.yaml", config)
	roles := strings.Replace(gitFaultRoles, `, "echo x >.trellis/tasks/02-01-bye/prd.md; git checkout -q --detach"`, "", 1)
	roles = strings.ReplaceAll(roles, `calls.log"]`, `calls.log", "`+at+`", "cp -r .trellis/.runtime/task $TRELLIS_REPO/../seen-$TRELLIS_ROLE-$TRELLIS_ROUND"]`)
	w.write(".trellis/rehearsal.yaml", strings.ReplaceAll(roles, "- answer: {criteria: [{id: A2", "- when: \"A3\"\n      answer: {criteria: [{id: A2, verdict: met, evidence: \"greet.sh:1\"}, {id: A3, verdict: met, evidence: \"greet.sh:1\"}]}\n    - answer: {criteria: [{id: A2"))
	w.write(".trellis/tasks/02-01-bye/prd.md", strings.ReplaceAll(gitFaultPRD, "grep -q Bye`", "grep -q Bye && "+at+"`"))
	hook := at
	if e.at == "final-verify" { // otherwise it runs nothing, since the commit was verified before it was made
		hook += "; echo x >hooked.txt; git add hooked.txt"
	}
	w.write(".git/hooks/pre-commit", "#!/bin/sh\n"+hook+"\n")
	if err := os.Chmod(w.path(".git/hooks/pre-commit"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.git("add", "-A")
	w.git("commit", "-q", "--no-verify", "-m", "second")
	head := "T=.trellis/tasks/02-01-bye W=" + filepath.Join(root, "repo-worktrees", "feature", "bye") + " R=" + root + "\nset -x; exec 2>>$R/edit.log\n"
	if e.at == "" {
		w.sh(e.do)
	} else {
		w.write("../edits/"+e.at, head+e.do)
	}
	return w
}

// sh runs a script as people would type it.
func (w *gitWorld) sh(script string) {
	w.Helper()
	if script == "" {
		return
	}
	cmd := exec.Command("sh", "-exc", script)
	cmd.Dir, cmd.Env = w.Dir, w.Env
	out, err := cmd.CombinedOutput()
	w.said += fmt.Sprintf("$ %s\n%s", script, out)
	if err != nil {
		w.Errorf("%v:\n%s", err, w.said)
	}
}

// standing returns a task's status, with the code of its failure.
func (w *gitWorld) standing() string {
	t := w.task()
	switch {
	case t.Status == "":
		return "gone"
	case t.Pipeline.Failure.Code != "":
		return t.Status + "/" + t.Pipeline.Failure.Code
	}
	return t.Status
}

func (e edit) run(t *testing.T, trellis string) {
	w := newEditWorld(t, trellis, e)
	code := w.trellis("start", "02-01-bye")
	if e.at != "" && w.read("../done-"+e.at) == "" {
		t.Fatalf("the run did not come to %s:\n%s", e.at, w.said)
	}
	w.said += w.read("../edit.log")
	if got := w.standing(); code != e.code || got != e.is {
		t.Errorf("start ended with %d, %s; want %d, %s\n%s", code, got, e.code, e.is, w.said)
	}
	w.sh(e.then)
	if e.ends != "" && w.standing() != e.ends {
		t.Errorf("in the end it is %s, want %s\n%s", w.standing(), e.ends, w.said)
	}
	w.sh(e.check)
}

// Edge A2: no approval is needed if a person adds to check.jsonl by a command while an agent works.
func TestContextAddedWhileAnAgentWorks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"add-context": "trellis task add-context 02-01-bye check greet.sh loud",
		"edit":        `EDITOR="sh $R/louder" trellis edit 02-01-bye check`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEditWorld(t, realTrellis(t), edit{at: "implement", do: "touch $R/begun; while ! test -e $R/over; do sleep 0.01; done"})
			w.write("../louder", `echo '{"file": "greet.sh", "reason": "loud"}' >>$1`)
			added := make(chan error, 1)
			go func() {
				cmd := exec.Command("sh", "-ec", "while ! test -e $R/begun; do sleep 0.01; done; "+change)
				cmd.Dir, cmd.Env = w.Dir, w.Env
				added <- cmd.Run()
				w.write("../over", "")
			}()
			if code := w.trellis("start", "02-01-bye"); code != 0 || w.standing() != "review" {
				t.Errorf("start ended with %d, %s\n%s", code, w.standing(), w.said)
			}
			if err := <-added; err != nil {
				t.Error(err)
			}
			w.sh("grep -q loud $R/seen-check-1/check.jsonl")
		})
	}
}
