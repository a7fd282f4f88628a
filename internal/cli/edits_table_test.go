package cli

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

const (
	delivered = "test \"$(git rev-list --count main..feature/bye)\" = 1; git show feature/bye:greet.sh | grep -q Bye"
	once      = "test \"$(grep -c implement $R/calls.log)\" = 1"
	settle    = "trellis start 02-01-bye"
	agree     = "trellis status 02-01-bye | grep 'changed while an agent was at work'; trellis approve 02-01-bye --by ann; " + settle
	asks      = `echo '{"status": "ready", "pipeline": {"approval": {"required": true}}}' >$T/task.json`
	again     = "trellis retry 02-01-bye; trellis start 02-01-bye"
)

// set returns a shell command that sets a field of task.json as an editor does.
func set(field, value string) string {
	return fmt.Sprintf(`sed 's|"%s": *"[^"]*"|"%s": "%s"|' $T/task.json >$R/new.json; grep -q '"%s": "%s"' $R/new.json; cp $R/new.json $T/task.json`, field, field, value, field, value)
}

// edits returns the rows of the table in docs/internals/pipeline.md.
func edits() (list []edit) {
	for _, phase := range editPhases {
		list = append(list,
			edit{"cancel-in-" + phase, phase, "trellis cancel 02-01-bye", 1, "cancelled", "! trellis start 02-01-bye", "cancelled", "test -d $W"},
			edit{"stop-in-" + phase, phase, "trellis stop 02-01-bye", 8, "paused/interrupted", settle, "review", delivered + "; test \"$(grep -c implement $R/calls.log)\" -le 2"})
	}
	for _, doc := range []string{"info.md", "design.md", "research.md", "requirement.md"} {
		list = append(list, edit{doc + "-in-progress", "implement", "echo 'Say it loud.' >$T/" + doc, 0, "review", "", "", once + "; ! test -e $R/seen-implement-1/" + doc + "; grep -q loud $R/seen-check-1/" + doc})
	}
	return append(list,
		edit{"prd-in-progress", "implement", "echo '- [ ] it is short' >>$T/prd.md", 0, "review", "", "", once + "; grep -q 'it is short' $T/report.md; ! grep -q short $R/seen-implement-1/prd.md; grep -q short $R/seen-check-1/prd.md"},
		edit{"prd-broken", "implement", "rm $T/prd.md", 1, "failed/invalid_task", "git show HEAD:$T/prd.md >$T/prd.md; " + again, "review", delivered + "; " + once},
		edit{"context-in-progress", "implement", `echo '{"file": "greet.sh", "reason": "loud"}' >>$T/check.jsonl`, 8, "waiting", agree, "review", once + "; grep -q loud $R/seen-check-1/check.jsonl"},
		edit{"context-broken", "implement", `echo '{"file": ' >>$T/check.jsonl`, 1, "failed/invalid_task", "grep -q 'check.jsonl:2' $T/report.md; git show HEAD:$T/check.jsonl >$T/check.jsonl; " + again, "review", delivered + "; " + once},
		edit{"status-cancelled", "check", set("status", "cancelled"), 1, "cancelled", "", "", "test -d $W"},
		edit{"status-paused", "check", set("status", "paused"), 8, "paused", settle, "review", delivered + "; " + once},
		edit{"status-ready", "check", set("status", "ready"), 0, "review", "", "", delivered + "; " + once},
		edit{"status-completed", "check", set("status", "completed"), 0, "review", "", "", delivered + "; " + once},
		edit{"run-fields", "check", set("phase", "commit"), 0, "review", "", "", delivered + "; " + once},
		edit{"people-fields", "check", `sed '1s|{|{"title": "Another title", "mine": 1, |' $T/task.json >$R/new.json; cp $R/new.json $T/task.json`, 0, "review", "", "", delivered + "; grep -q 'Another title' $T/task.json; ! git log -1 --format=%s feature/bye | grep -q Another"},
		edit{"claimed-fields", "check", set("branch", "feature/other") + `; sed -i.bak 's|"pipeline": *{|"pipeline": {"verify": ["false"], |' $T/task.json; grep -q false $T/task.json`, 8, "waiting", agree, "review", delivered},
		edit{"plan-added", "implement", `echo '{"schema_version": 1, "title": "Say bye", "steps": [{"id": "a", "command": "echo a >>a.txt", "verify": "test -e a.txt"}], "acceptance": [{"criterion": "it says bye"}]}' >$T/plan.json`, 8, "waiting", agree, "review", delivered + "; ! git show feature/bye:a.txt"},
		edit{"taskspec-broken", "implement", "echo '{' >$T/taskspec.json", 0, "review", "", "", delivered + "; grep -q taskspec.json $T/report.md"},
		edit{"old-copy", "check", "git show HEAD:$T/task.json >$T/task.json", 0, "review", "", "", delivered + "; " + once},
		edit{"task-json-broken", "check", "cp $T/task.json $R/whole.json; echo '{' >$T/task.json", 3, "broken", "cp $R/whole.json $T/task.json; " + settle, "review", delivered + "; " + once},
		edit{"approvals-broken", "check", "echo '{' >$T/approvals.jsonl", 0, "review", "", "", delivered},
		edit{"report-in-progress", "check", "echo mine >$T/report.md", 0, "review", "", "", "! grep -q '^mine$' $T/report.md"},
		edit{"config-in-progress", "check", "printf 'agents: {default: rehearsal}\\nverify: [\"false\"]\\n' >.trellis/config.yaml", 8, "waiting", agree, "review", delivered},
		edit{"config-broken", "check", "echo '{' >.trellis/config.yaml", 0, "review", "! trellis start 02-01-bye 2>$R/said; grep -q config.yaml $R/said", "", delivered},
		edit{"worktree-file", "check", "echo mine >$W/mine.txt", 0, "review", "", "", delivered + "; git show feature/bye:mine.txt | grep -q mine"},
		edit{"branch-commit", "check", "cd $W; echo mine >mine.txt; git add mine.txt; git commit -qm mine", 0, "review", "", "", "git show feature/bye:mine.txt | grep -q mine; git log --format=%s feature/bye | grep -q '^mine$'"},
		edit{"branch-reset", "check", "cd $W; git reset -q --soft HEAD~1", 0, "review", "", "", delivered + "; " + once},
		edit{"work-reset", "check", "cd $W; git reset -q --hard", 0, "review", "", "", delivered + "; git show feature/bye:new.txt"},
		edit{"branch-deleted", "check", "git update-ref -d refs/heads/feature/bye", 0, "review", "", "", delivered},
		edit{"branch-renamed", "check", "git branch -m feature/bye other", 0, "review", "", "", delivered},
		edit{"worktree-removed", "check", "git worktree remove --force $W", 1, "failed/worktree_failed", again, "review", delivered + "; git show feature/bye:new.txt"},
		edit{"worktree-rm", "check", "rm -rf $W", 1, "failed/worktree_failed", again, "review", delivered + "; git show feature/bye:new.txt"},
		edit{"directory-removed", "check", "mv $T $R/away", 3, "gone", "mv $R/away $T; " + settle, "review", delivered + "; " + once},
		edit{"directory-renamed", "check", "mv $T .trellis/tasks/02-02-bye", 3, "in_progress", "mv .trellis/tasks/02-02-bye $T; " + settle, "review", delivered + "; " + once},
		edit{"directory-archived", "check", "mkdir -p .trellis/tasks/archive/2026-01; mv $T .trellis/tasks/archive/2026-01/", 3, "gone", "mv .trellis/tasks/archive/2026-01/02-01-bye $T; " + settle, "review", delivered + "; " + once},
		edit{"run-removed", "check", "rm -rf $T/run", 3, "in_progress", "! trellis start 02-01-bye; " + again, "review", delivered},
		edit{"journal-cut", "check", "head -c 900 $T/run/journal.jsonl >$R/j; cp $R/j $T/run/journal.jsonl", 11, "in_progress", "trellis start 02-01-bye", "review", delivered},

		edit{"ready-edited", "", "echo 'Say it loud.' >>$T/prd.md", 0, "review", "", "", "grep -q loud $R/seen-implement-1/prd.md"},
		edit{"ready-cancelled", "", "trellis cancel 02-01-bye", 2, "cancelled", "! test -e $W; " + again, "review", delivered},
		edit{"ready-held", "", set("status", "planning"), 0, "review", "", "", delivered},
		edit{"approval-by-hand", "", asks, 8, "waiting", `echo '{"decision": "approve", "by": "ann"}' >>$T/approvals.jsonl; ` + settle, "review", delivered},
		edit{"rejection-by-hand", "", asks, 8, "waiting", `echo '{"decision": "reject", "by": "ann", "reason": "no"}' >>$T/approvals.jsonl; ! trellis start 02-01-bye; ! test -e $W`, "", ""},
		edit{"waiting-edited", "", asks, 8, "waiting", "trellis approve 02-01-bye --by ann; echo 'Say it loud.' >>$T/prd.md; code=0; trellis start 02-01-bye || code=$?; test $code = 8; trellis approve 02-01-bye --by ann; " + settle, "review", delivered},
		edit{"paused-edited", "check", "echo 'Say it loud.' >>$T/prd.md; trellis stop 02-01-bye", 8, "paused/interrupted", "code=0; trellis start 02-01-bye || code=$?; test $code = 8; " + agree, "review", delivered + "; " + once + "; grep -rq loud $T/run/inputs"},
		edit{"paused-edited-later", "check", "trellis stop 02-01-bye", 8, "paused/interrupted", "echo '- [ ] it is short' >>$T/prd.md; " + settle, "review", delivered + "; " + once + "; grep -q 'it is short' $T/report.md"},
		edit{"paused-worktree", "check", "echo mine >$W/mine.txt; trellis stop 02-01-bye", 8, "paused/interrupted", settle, "review", delivered + "; git show feature/bye:mine.txt | grep -q mine"},
		edit{"failed-edited", "implement", "rm $T/prd.md", 1, "failed/invalid_task", "git show HEAD:$T/prd.md >$T/prd.md; echo 'Say it loud.' >>$T/prd.md; " + again, "review", delivered + "; test \"$(grep -c implement $R/calls.log)\" = 2"},
		edit{"review-edited", "", "true", 0, "review", "echo 'Say it loud.' >>$T/prd.md; echo mine >$T/report.md; trellis start 02-01-bye", "review", delivered + "; " + once + "; grep -q mine $T/report.md"},
		edit{"review-ready", "", "true", 0, "review", set("status", "ready") + "; ! trellis start 02-01-bye", "ready", delivered + "; " + once},
		edit{"review-proofs", "", "true", 0, "review", "echo '{}' >>$T/proofs.jsonl; ! trellis verify 02-01-bye", "review", ""},
		edit{"spec-in-progress", "implement", "mkdir -p .trellis/spec; echo loud >.trellis/spec/index.md", 0, "review", "", "", delivered + "; ! test -e $W/.trellis/spec/index.md"},
		edit{"role-in-progress", "implement", "mkdir -p .trellis/agents; printf -- '---\\nname: check\\n---\\nSay it loud.\\n' >.trellis/agents/check.md", 0, "review", "", "", delivered + "; grep -rlq 'Say it loud' $T/run/1/round-1"},
		edit{"base-moved", "check", "echo more >more.txt; git add more.txt; git commit -q --no-verify -m more", 0, "review", "", "", "test \"$(git rev-list --count main~1..feature/bye)\" = 1; ! git show feature/bye:more.txt"},
		edit{"git-stash", "check", "echo more >>$T/prd.md; git stash -q", 0, "review", "", "", delivered + "; " + once},
		edit{"git-reset", "check", "git reset -q --hard", 0, "review", "", "", delivered + "; " + once},
		// Edge S11: git removes or restores files besides those that it tracks.
		edit{"git-clean", "check", "git clean -fdxq", 3, "in_progress", "! trellis start 02-01-bye 2>$R/said; grep 'git clean -x' $R/said; trellis status 02-01-bye | grep 'next.*trellis retry 02-01-bye'; " + again, "review", delivered},
		edit{"git-stash-pop", "", "true", 0, "review", "git stash -q; trellis status 02-01-bye | grep ready; ! trellis start 02-01-bye 2>$R/said; grep 'git took task.json back' $R/said; trellis status 02-01-bye | grep 'next.*trellis retry'; trellis list | grep 'task.json was taken back'; git stash pop -q", "review", delivered},
		edit{"git-switch", "check", "git checkout -q -b other; git add -A; git commit -q --no-verify -m all; git rm -rqf $T; git commit -q --no-verify -m none", 3, "gone", "git checkout -q HEAD~1; " + settle, "review", delivered + "; " + once},
	)
}

// alike are rows that only a soak tests, since others are of their kind.
var alike = []string{"info.md-in-progress", "design.md-in-progress", "research.md-in-progress", "prd-in-progress", "context-broken", "status-paused", "status-completed", "run-fields",
	"taskspec-broken", "approvals-broken", "report-in-progress", "config-broken", "worktree-file", "work-reset", "branch-renamed", "worktree-removed", "directory-archived", "run-removed",
	"ready-held", "rejection-by-hand", "paused-edited-later", "review-proofs", "git-reset", "review-edited", "failed-edited", "branch-reset",
	"directory-renamed", "ready-cancelled", "paused-worktree", "spec-in-progress", "git-stash", "git-switch", "review-ready", "ready-edited"}

// A sample of the rows; all of them with TRELLIS_SOAK.
func TestEdits(t *testing.T) {
	t.Parallel()
	trellis := realTrellis(t)
	for i, e := range edits() {
		if order := strings.HasPrefix(e.name, "cancel-in-") || strings.HasPrefix(e.name, "stop-in-"); !soak.Asked() && (order && i%7 > 0 || slices.Contains(alike, e.name)) {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			e.run(t, trellis)
		})
	}
}

// The table in docs/internals/pipeline.md names all scripts of edits, and only scripts and tests that exist.
func TestEditsDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/internals/pipeline.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "## Commands and edits during a run\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 || cells[1] == " who " || strings.HasPrefix(cells[1], " -") {
			continue
		}
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[5], -1)
		if len(names) == 0 {
			t.Errorf("a row names no script: %s", line)
		}
		for _, m := range names {
			if strings.HasPrefix(m[1], "Test") {
				if out, err := exec.Command("grep", "-rqF", "--include=*_test.go", "func "+m[1]+"(", "../..").CombinedOutput(); err != nil {
					t.Errorf("there is no test %s: %v %s", m[1], err, out)
				}
				continue
			}
			got = append(got, m[1])
		}
	}
	for _, e := range edits() {
		want = append(want, e.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the table names\n%q, the scripts are\n%q", got, want)
	}
}
