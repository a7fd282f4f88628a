package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// strange is content of somebody else's branch that would run here. In its texts CANARY is a file that only exists if something of
// it ran, and STRANGER is a word that makes the agents of the test create that file.
type strange struct {
	name  string
	files map[string]string // by path; "-> x" is a link, and paths of a task are relative to its directory
	dud   bool              // agreeing to it does not run anything by itself
	plans bool              // only planners read it: no run does, agreed to or not

	blocks bool // a program that trusted settings name: no task is begun while it is untrusted
}

// ofTasks are directories of tasks, which are ready unless they say otherwise.
var ofTasks = []strange{
	{name: "verify", files: map[string]string{"task.json": `{"status": "ready", "base_branch": "origin/main", "pipeline": {"verify": ["touch CANARY"]}}`}},
	{name: "criterion", files: map[string]string{"prd.md": "# X\n\n## Acceptance Criteria\n\n- [ ] it is\n  verify: `touch CANARY`\n"}},
	{name: "step", files: map[string]string{"plan.json": planOf(`{"id": "a", "command": "sh test.sh && touch CANARY", "proof": {"type": "test"}}`, "")}},
	{name: "proof", files: map[string]string{"plan.json": planOf(`{"id": "a", "prompt": "Work.", "verify": "touch CANARY"}`, "")}},
	{name: "acceptance", files: map[string]string{"plan.json": planOf(`{"id": "a", "command": "sh test.sh", "proof": {"type": "test"}}`, `, "acceptance": [{"criterion": "it is", "verify": "touch CANARY"}]`)}},
	{name: "precondition", files: map[string]string{"plan.json": planOf(`{"id": "a", "command": "sh test.sh", "proof": {"type": "test"}}`, `, "preconditions": [{"command": "touch CANARY"}]`)}, dud: true},
	{name: "rollback", files: map[string]string{"plan.json": planOf(`{"id": "a", "command": "false", "proof": {"type": "test"}}`, `, "rollback": ["touch CANARY"]`)}, dud: true},
	{name: "words", files: map[string]string{"prd.md": "# X\n\nSTRANGER\n\n## Acceptance Criteria\n\n- [ ] it is\n"}},
	{name: "notes", files: map[string]string{"info.md": "STRANGER\n"}},
	{name: "context", files: map[string]string{"implement.jsonl": `{"file": "greet.sh", "reason": "STRANGER"}` + "\n"}},
	{name: "under-way", files: map[string]string{"task.json": `{"status": "in_progress", "pipeline": {"verify": ["touch CANARY"]}}`, "run/journal.jsonl": `{"k":"start"}` + "\n"}, dud: true},
	{name: "waiting", files: map[string]string{"task.json": `{"status": "waiting", "waiting_for": "approval", "pipeline": {"verify": ["touch CANARY"]}}`}, dud: true},
	{name: "paused", files: map[string]string{"task.json": `{"status": "paused", "resume_at": "2001-01-01T00:00:00Z", "pipeline": {"verify": ["touch CANARY"]}}`}, dud: true},
	{name: "approved", files: map[string]string{"plan.json": planOf(`{"id": "ask", "type": "approval", "title": "Shall it?"}, {"id": "a", "command": "sh test.sh && touch CANARY", "proof": {"type": "test"}}`, ""), "approvals.jsonl": `{"decision": "approved", "step": "ask", "by": "ada"}` + "\n"}, dud: true},
	{name: "based", files: map[string]string{"task.json": `{"status": "ready", "base_branch": "origin/code"}`}, dud: true},
	{name: "draft", files: map[string]string{"task.json": `{"status": "planning"}`, "requirement.md": "STRANGER\n"}, dud: true},
	{name: "spec", files: map[string]string{"taskspec.json": `{"intent": "STRANGER"}`}, dud: true},
	{name: "guideline", files: map[string]string{"implement.jsonl": `{"file": ".trellis/spec/theirs.md", "reason": "words"}` + "\n", "../../spec/theirs.md": "STRANGER\n"}, dud: true},
	{name: "proven", files: map[string]string{"plan.json": planOf(`{"id": "a", "command": "touch CANARY", "proof": {"type": "test"}}`, ""), "proofs.jsonl": `{"v":1,"kind":"final"}` + "\n", "run/journal.jsonl": `{"k":"start"}` + "\n"}, dud: true},
	{name: "link", files: map[string]string{"prd.md": "-> ../../../STRANGER.md"}, dud: true},
}

// ofSettings are what settings, and files that they name, may run; each is on a branch of its own. A file config.yaml is
// added to that of the main branch.
var ofSettings = []strange{
	{name: "a hook", files: map[string]string{"config.yaml": "hooks: {after_start: [touch CANARY]}"}},
	{name: "a program told", files: map[string]string{"config.yaml": "notify: [{on: [in_progress, review], command: [touch, CANARY]}]"}},
	{name: "a server told", files: map[string]string{"config.yaml": "notify: [{on: [in_progress, review], webhook: \"SERVER\"}]"}},
	{name: "setup", files: map[string]string{"config.yaml": "worktree: {setup: [touch CANARY]}"}},
	{name: "checks", files: map[string]string{"config.yaml": "verify: [touch CANARY]"}},
	{name: "an agent", files: map[string]string{"config.yaml": "agents: {default: x, commands: {x: {command: [touch, CANARY]}}}"}},
	{name: "an agent's server", files: map[string]string{"config.yaml": "agents: {default: rehearsal, roles: {accept: {agent: x}}, apis: {x: {api: openai, model: m, base_url: \"SERVER\"}}}"}},
	{name: "an older agent", files: map[string]string{"worktree.yaml": "post_create: [touch CANARY]\n"}},
	{name: "a script of agents", files: map[string]string{"rehearsal.yaml": "roles:\n  implement: [{run: [touch CANARY], answer: done}]\n  check: [{answer: fine}]\n  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"greet.sh:1\"}]}}]\n"}, blocks: true},
	{name: "a role", files: map[string]string{"agents/implement.md": "---\nname: implement\n---\nSTRANGER\n"}},
	{name: "a template", files: map[string]string{"templates/implement.md.tmpl": "TEMPLATE\nSTRANGER\n"}},
	{name: "a workflow", files: map[string]string{"workflow.md": "# STRANGER\n"}, plans: true},
	{name: "settings that are a link", files: map[string]string{"config.yaml": "-> other.yaml", "other.yaml": "agents: {default: rehearsal}\nhooks: {after_start: [touch CANARY]}\n"}, dud: true},
	{name: "a program that is told", files: map[string]string{"../tools/tell.sh": "#!/bin/sh\ntouch CANARY\n"}, blocks: true},
	{name: "a script of a hook", files: map[string]string{"../tools/hook.sh": "touch CANARY\n"}, blocks: true},
	{name: "weaker walls", files: map[string]string{"config.yaml": "sandbox: off\nprotected: []\nplanning: {approval: none}"}, dud: true},
	{name: "a push", files: map[string]string{"config.yaml": "delivery: {push: true}"}, dud: true},
	{name: "an objective", files: map[string]string{"objectives/road.md": "---\nauto_advance: true\n---\n# STRANGER\n\n## Roadmap\n\n| Node | Description | Status |\n| --- | --- | --- |\n| 1.1 | STRANGER | pending |\n"}, dud: true},
	{name: "what git and tools run", files: called(), dud: true},
	{name: "a current task", files: map[string]string{".current-task": ".trellis/tasks/03-01-verify\n"}, dud: true},
}

// called returns files of the checkout that would be run by git, since the person's settings place its hooks there, and by the
// project's own commands. Tasks that begin at the main branch use the files of that branch.
func called() map[string]string {
	files := map[string]string{"../test.sh": "touch CANARY\n", "../package.json": `{"scripts": {"test": "touch CANARY", "prepare": "touch CANARY"}}`,
		"../.gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = ext::touch% CANARY\n\tupdate = checkout\n"}
	for _, hook := range []string{"applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-checkout", "post-commit", "post-index-change", "post-merge", "post-rewrite", "pre-auto-gc",
		"pre-commit", "pre-merge-commit", "pre-push", "pre-rebase", "prepare-commit-msg", "reference-transaction"} {
		files["../"+hooks+"/"+hook] = "#!/bin/sh\ntest -n \"$BY_HAND\" || { echo \"${0##*/} in $PWD\" >>CANARY; }\n"
	}
	return files
}

// hooks is the folder where the person's git finds its hooks, as hook managers set it up.
const hooks = ".husky"

// planOf returns a plan.json with these steps.
func planOf(steps, more string) string {
	if !strings.Contains(more, "acceptance") {
		more += `, "acceptance": [{"criterion": "it is", "verify": "sh test.sh"}]`
	}
	return `{"schema_version": 1, "title": "X", "steps": [` + steps + `]` + more + `}`
}

// clone is a person's clone of a project, with a server and a stranger's clone beside it.
type clone struct {
	*site
	Root   string
	Server string // a URL; each request to it makes a canary
}

// newClone returns a clone of a project that the person has pushed.
func newClone(t *testing.T) *clone {
	t.Helper()
	root := t.TempDir()
	c := &clone{site: &site{t, filepath.Join(root, "repo"), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root + "/home", "TERM=xterm", "GIT_CONFIG_NOSYSTEM=1", "GOGC=" + os.Getenv("GOGC"), "TRELLIS_X=" + program}}, Root: root}
	c.Server = c.serve(t)
	c.write("greet.sh", "echo \"Hello, ${1:-world}!\"\n")
	c.write("test.sh", "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'\n")
	c.write("tools/tell.sh", "#!/bin/sh\necho \"$TRELLIS_TASK_ID\" >>../told.${PWD##*/}\n")
	c.write("tools/hook.sh", "true\n")
	c.shell(`mkdir -p ../home ../canary; chmod +x tools/tell.sh; git config --global user.name Ada; git config --global user.email ada@example.org
git init -q -b main; "$TRELLIS_X" init --agent rehearsal >/dev/null 2>&1`)
	c.write(".trellis/config.yaml", settings(""))
	c.write(".trellis/rehearsal.yaml", fmt.Sprintf("roles:\n  implement:\n    - {when: STRANGER, run: [\"touch %s/canary/words; echo x >> greet.sh\"], answer: done}\n    - {run: [\"echo '# work' >> greet.sh\"], answer: done}\n"+
		"  check: [{answer: fine}]\n  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"greet.sh:1\"}]}}]\n", root))
	c.shell(`git add -A; git commit -q -m first; git init -q --bare ../origin.git; git remote add origin ../origin.git; git push -q origin main
git -C ../origin.git symbolic-ref HEAD refs/heads/main; git fetch -q; git remote set-head origin main; git clone -q ../origin.git ../theirs
cd ../theirs; git config user.name Mallory; git config user.email mallory@example.org`)
	return c
}

// base are the settings of the project, one line for each name.
var base = []string{"agents: {default: rehearsal}", "verify: [sh test.sh]", "limits: {attempts: 1, rounds: 1, parallel: 4}", "objectives: {watch: true}",
	"notify: [{on: [review], command: [./tools/tell.sh]}]", "hooks: {after_finish: [sh tools/hook.sh]}"}

// settings returns the settings of the project, with others replacing those of the same name.
func settings(others string) string {
	text := others + "\n"
	for _, line := range base {
		if name, _, _ := strings.Cut(line, ":"); !strings.Contains("\n"+others, "\n"+name+":") {
			text += line + "\n"
		}
	}
	return text
}

// serve starts a server on which each request leaves a canary, and returns its URL.
func (c *clone) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/") // the rest of the path belongs to an API
		if err := os.WriteFile(filepath.Join(c.Root, "canary", name), nil, 0o644); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// shell runs a shell script in the clone, which must succeed, and returns its output.
func (c *clone) shell(script string) string {
	c.Helper()
	return c.run("sh", "-ec", script)
}

// branch makes a branch in the stranger's clone with files of theirs, which publish pushes.
func (c *clone) branch(name string, write func(dir string)) {
	c.Helper()
	c.shell("cd ../theirs; git checkout -q -B " + name + " origin/main")
	write(filepath.Join(c.Root, "theirs"))
	c.shell("cd ../theirs; git add -f -A; git commit -q -m 'Help a bit'")
}

// lay writes the files of s below a folder.
func (c *clone) lay(s strange, dir string) {
	c.Helper()
	template, err := os.ReadFile("../templates/implement.md.tmpl") // a template that says less is refused
	if err != nil {
		c.Fatal(err)
	}
	fill := strings.NewReplacer("TEMPLATE", string(template), "CANARY", filepath.Join(c.Root, "canary", file(s.name)), "SERVER", c.Server+"/"+file(s.name))
	for name, text := range s.files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if name == "config.yaml" && !strings.HasPrefix(text, "-> ") {
			text = settings(text)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			c.Fatal(err)
		}
		_ = os.Remove(path)
		err := os.WriteFile(path, []byte(fill.Replace(text)), 0o755)
		if to, link := strings.CutPrefix(text, "-> "); link {
			_ = os.Remove(path)
			err = os.Symlink(to, path)
		}
		if err != nil {
			c.Fatal(err)
		}
	}
}

// file returns a name as a file name.
func file(name string) string { return strings.NewReplacer(" ", "-", "'", "").Replace(name) }

// task returns a task as people write it, whose work is good.
func task(dir string) strange {
	return strange{name: "mine", files: map[string]string{"prd.md": "# Say bye in " + filepath.Base(dir) + "\n\n## Acceptance Criteria\n\n- [ ] greet.sh --bye says Bye\n",
		"implement.jsonl": `{"file": "greet.sh", "reason": "the program"}` + "\n", "check.jsonl": `{"file": "test.sh", "reason": "its test"}` + "\n",
		"task.json": fmt.Sprintf(`{"status": "ready", "base_branch": "origin/main", "branch": "feature/%s"}`, filepath.Base(dir))}}
}

// idOf returns the name of the directory of a stranger's task.
func idOf(s strange) string { return "03-01-" + s.name }

// publish makes the branches of the stranger and pushes them.
func (c *clone) publish() {
	c.Helper()
	c.branch("code", func(dir string) {
		c.lay(strange{name: "code", files: map[string]string{"test.sh": "touch CANARY\n"}}, dir)
	})
	c.branch("tasks", func(dir string) {
		for _, s := range ofTasks {
			at := filepath.Join(dir, ".trellis/tasks", idOf(s))
			c.lay(task(at), at)
			c.lay(s, at)
		}
		c.lay(strange{files: map[string]string{"STRANGER.md": "STRANGER\n"}}, dir)
	})
	c.shell("cd ../theirs; git checkout -q -b more; sed -i 's/touch /touch more; touch /' .trellis/tasks/03-01-verify/task.json; git commit -q -a -m 'Help more'")
	for _, s := range ofSettings {
		c.branch(file(s.name), func(dir string) { c.lay(s, filepath.Join(dir, ".trellis")) })
	}
	c.shell("cd ../theirs; git push -q origin --all")
}

// mine writes a task of the person and returns the name of its directory.
func (c *clone) mine(n int) string {
	c.Helper()
	id := fmt.Sprintf("04-%02d-mine", n)
	dir := filepath.Join(c.Dir, ".trellis/tasks", ".new-"+id)
	c.lay(task(id), dir)
	if err := os.Rename(dir, filepath.Join(c.Dir, ".trellis/tasks", id)); err != nil {
		c.Fatal(err)
	}
	return id
}

// quiet fails for each canary, and removes it.
func (c *clone) quiet(when string) {
	c.Helper()
	entries, err := os.ReadDir(filepath.Join(c.Root, "canary"))
	if err != nil {
		c.Fatal(err)
	}
	for _, e := range entries {
		said, _ := os.ReadFile(filepath.Join(c.Root, "canary", e.Name()))
		c.Errorf("%s: %s was run: %s", when, e.Name(), said)
		_ = os.Remove(filepath.Join(c.Root, "canary", e.Name()))
	}
}

// watching starts a watcher in the clone, and returns a function that returns its output so far.
func (c *clone) watching(t *testing.T) (said func() string) {
	t.Helper()
	log, err := os.Create(filepath.Join(c.Root, filepath.Base(c.Dir)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "watch", "--rescan", "1s")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said = func() string { return c.read("../" + filepath.Base(log.Name())) }
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // a process that is started with SIGINT ignored keeps ignoring it
		_ = cmd.Wait()
		log.Close()
		if t.Failed() {
			t.Log(said())
		}
	})
	return said
}

// another makes a fresh clone of the same project.
func (c *clone) another(name, branch string) *clone {
	c.Helper()
	c.shell("git clone -q -b " + branch + " ../origin.git ../" + name + "; git -C ../" + name + " config core.hooksPath " + hooks)
	return &clone{&site{c.TB, filepath.Join(c.Root, name), append(c.Env, "XDG_STATE_HOME="+filepath.Join(c.Root, name+".state"))}, c.Root, c.Server}
}

// TestStrangersBranch, edge S2: nothing of somebody else's branch that is checked out or pulled under a watcher, or cloned,
// runs before somebody agrees. That is reported once, with commit and author, and a healthy task beside it is delivered.
func TestStrangersBranch(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	c.publish()
	for n, way := range []struct{ name, bring string }{
		{"checkout", "git checkout -q -f -B theirs origin/%s"},
		{"pull", "git checkout -q -f main; git reset -q --hard origin/main; git pull -q --no-rebase --no-ff --no-edit origin %s"},
	} {
		t.Run(way.name, func(t *testing.T) {
			c.shell("rm -f ../canary/*")
			w := c.another(way.name, "main")
			w.TB = t
			w.watched(t, way.bring, n)
		})
	}
	t.Run("clone", func(t *testing.T) {
		c.shell("rm -f ../canary/*")
		w := c.another("clone", "tasks")
		w.TB = t
		w.changed(t)
		mine := w.mine(1)
		_, out, errs := w.try(program, "watch", "--once", "--rescan", "1s")
		w.told(t, out+errs)
		if w.quiet("watch --once"); !w.delivered(t, mine) {
			t.Errorf("the healthy task is not delivered\n%s", out+errs)
		}
		w.settled(t)
	})
}

// changed lets the person agree to a task that the stranger then changes; Trellis asks again.
func (c *clone) changed(t *testing.T) {
	c.trellis(0, "trust", "03-01-verify", "--yes")
	c.shell("git merge -q --ff-only origin/more")
	if code, out, errs := c.try(program, "start", "03-01-verify"); code != 8 || !strings.Contains(out+errs, "by Mallory") {
		t.Errorf("changed again: start: exit %d\n%s", code, out+errs)
	}
	c.quiet("changed again")
}

// watched brings all branches under a watcher, in the nth of two ways: every fourth of the settings, with TRELLIS_SOAK all of them.
func (c *clone) watched(t *testing.T, bring string, n int) {
	said := c.watching(t)
	first := c.mine(1)
	c.waitFor(func() bool { return c.toldOf(t, first) }, "the healthy task is not delivered")
	c.bring("git fetch -q; "+bring, "tasks")
	second := c.mine(2)
	c.waitFor(func() bool { return c.toldOf(t, second) }, "the healthy task beside theirs is not delivered")
	c.waitFor(func() bool { return !strings.Contains(c.untold(said()), "03-01") }, "not all tasks are told")
	c.quiet("tasks")
	blocked := map[string]string{}
	for i, s := range ofSettings {
		if i%4 != n && !soak.Asked() {
			continue
		}
		c.bring(bring, file(s.name))
		from := "settings came with commit " + c.run("git", "rev-parse", "--short=7", "origin/"+file(s.name))
		mine := ""
		if !s.heard() || i == 0 { // such settings would apply to a task that is begun then
			mine = c.mine(10 + i)
		}
		switch {
		case s.blocks: // reported for the task too, which is checked before the next branch comes
			c.waitFor(func() bool { return count(said(), from, "task="+mine) > 0 }, s.name+" is not told")
			blocked[mine] = from
		case s.heard():
			c.waitFor(func() bool { return strings.Contains(said(), from) }, s.name+" is not told")
		}
		if !s.blocks && mine != "" {
			c.waitFor(func() bool { return c.toldOf(t, mine) }, "the healthy task beside "+s.name+" is not delivered")
		}
		c.quiet(s.name)
	}
	c.told(t, said())
	for id, from := range blocked {
		if n := count(said(), from, "task="+id); n != 1 {
			t.Errorf("that %s waits is told %d times", id, n)
		}
	}
	if n == 0 || soak.Asked() { // what runs then does not depend on how it came
		c.agreed(bring)
	}
}

// bring runs git to bring a branch, with retries. In the milliseconds in which git itself makes a worktree, the HEAD of that
// names no commit yet, and another git that reads all worktrees may fail because of that.
func (c *clone) bring(script, branch string) {
	c.Helper()
	for {
		code, out, errs := c.try("sh", "-ec", "export BY_HAND=1; "+fmt.Sprintf(script, branch))
		if code == 0 {
			return
		}
		if !strings.Contains(errs, "bad object worktrees/") {
			c.Fatalf("bringing %s: exit %d\n%s%s", branch, code, out, errs)
		}
	}
}

// toldOf reports whether a task is delivered and its notification was sent: if somebody checks out another branch while a program
// of the checkout is about to be started, the program of that branch starts, as docs/reference/trust.md says.
func (c *clone) toldOf(t *testing.T, id string) bool {
	told, _ := os.ReadFile(filepath.Join(c.Root, "told."+filepath.Base(c.Dir))) // no file yet: nothing was sent
	return c.delivered(t, id) && slices.Contains(strings.Fields(string(told)), id)
}

// agreed lets the person agree to the tasks, and checks that they run then.
func (c *clone) agreed(bring string) {
	c.bring(bring, "tasks")
	c.trellis(0, "trust", "--all", "--yes")
	for _, s := range ofTasks {
		c.waitFor(func() bool { return s.dud || s.words() && c.ran("words") || c.ran(s.name) }, s.name+" does not run")
	}
}

// words reports whether s is text for agents to read.
func (s strange) words() bool { return strings.Contains(fmt.Sprint(s.files), "STRANGER") }

// ran reports whether the canary of this name exists.
func (c *clone) ran(name string) bool {
	_, err := os.Stat(filepath.Join(c.Root, "canary", name))
	return err == nil
}

// heard reports whether s is in a file whose changes a watcher notices.
func (s strange) heard() bool {
	return !s.dud && (s.files["config.yaml"] != "" || s.files["worktree.yaml"] != "")
}

// count returns the number of lines that contain all of these words.
func count(text string, words ...string) (n int) {
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// untold returns the ids of the tasks that are not reported.
func (c *clone) untold(said string) (ids string) {
	for _, s := range ofTasks {
		if !s.dud && !strings.Contains(said, "task "+idOf(s)+" came with commit") {
			ids += idOf(s) + " "
		}
	}
	return ids
}

// told checks that each task was reported once, with its author.
func (c *clone) told(t *testing.T, said string) {
	t.Helper()
	for _, s := range ofTasks {
		if n := strings.Count(said, "task "+idOf(s)+" came with commit"); n > 1 || n == 0 && !s.dud {
			t.Errorf("%s is told %d times\n%s", s.name, n, said)
		}
	}
	if !strings.Contains(said, "by Mallory") {
		t.Errorf("nobody is told who it is from:\n%s", said)
	}
}

// settled tries the settings in a clone that never trusted any: those that no watcher has in watched, with TRELLIS_SOAK all.
func (c *clone) settled(t *testing.T) {
	t.Helper()
	for i, s := range ofSettings {
		if s.dud || i%4 < 2 && !soak.Asked() {
			continue
		}
		c.Env = append(c.Env, fmt.Sprintf("XDG_STATE_HOME=%s/state%d", c.Root, i))
		c.shell("git checkout -q -f " + file(s.name))
		mine := c.mine(10 + i)
		if code, out, errs := c.try(program, "start", mine); code != 8 || !strings.Contains(out+errs, "by Mallory") {
			t.Errorf("%s: start: exit %d\n%s", s.name, code, out+errs)
		}
		if c.quiet(s.name); i%4 != 2 && !soak.Asked() {
			continue
		}
		c.trellis(0, "trust", "--settings", "--yes")
		_, out, errs := c.try(program, "start", mine)
		if !c.ran(file(s.name)) && !(s.words() && c.ran("words")) && !s.plans {
			t.Errorf("%s: agreed to, it does not run\n%s", s.name, out+errs)
		}
		c.shell("rm -f ../canary/*")
	}
}
