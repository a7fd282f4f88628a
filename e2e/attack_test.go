package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// attack is something that an agent tries besides its work, with the expected result.
type attack struct {
	name    string
	prepare string // shell script, run in the main checkout beforehand; the result is committed as the base
	script  string // what the agent runs in its worktree, with $ROOT, $MAIN, $HOME, $TASK and $WORD set
	got     string // shell script, run in the main checkout afterwards; it succeeds if the attack reached its goal
	off     fate
	require fate
	fools   bool // without a sandbox, the test passes in the worktree where the agent works
}

// fate is the expected result of an attack. The zero value means that the attack has no effect.
type fate struct {
	told string // the attack can't be prevented; people are shown this text
	open string // the attack is not reported either; docs/reference/trust.md says this about it
}

func told(says string) fate { return fate{told: says} }

func open(says string) fate { return fate{open: says} }

// What docs/reference/trust.md says about the attacks that are not reported.
const (
	elsewhere = "Writes into the home folder, folders of `PATH`, other worktrees and tasks, what git ignores, anywhere else"
	ofPath    = "Puts a program of its own into a folder of `PATH`"
	calls     = "Changes what one of your hooks calls"
	left      = "Leaves something in a shared folder that its checks find there"
)

// of returns the fate expected in one mode of the sandbox.
func (a attack) of(mode string) fate {
	if mode == sandbox.Off {
		return a.off
	}
	return a.require
}

// modes returns the sandbox modes in which the nth attack is run: one, or all with TRELLIS_SOAK.
func modes(t *testing.T, n int) []string {
	t.Helper()
	all := boxed(t)
	if soak.Asked() || len(all) == 1 {
		return all
	}
	return []string{all[[]int{0, 2, 0, 1}[n%4]]}
}

// modes returns the sandbox modes in which the attack, the nth of a list, is run. An attack that succeeds without a sandbox is
// always run without one too.
func (a attack) modes(t *testing.T, n int) []string {
	t.Helper()
	list := modes(t, n)
	if a.off != (fate{}) && !slices.Contains(list, sandbox.Off) {
		list = append(list, sandbox.Off)
	}
	return list
}

// boxed returns all sandbox modes that this machine supports.
func boxed(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Log("there is no bubblewrap here: the attacks are made without a sandbox alone")
		return []string{sandbox.Off}
	}
	return []string{sandbox.Off, sandbox.Auto, sandbox.Require}
}

// bothModes returns the modes for attacks that are always run both without a sandbox and in it; with TRELLIS_SOAK all modes.
func bothModes(t *testing.T) []string {
	t.Helper()
	all := boxed(t)
	if soak.Asked() || len(all) == 1 {
		return all
	}
	return []string{sandbox.Off, sandbox.Require}
}

// attacked returns the folder that all targets are copied from.
var attacked = sync.OnceValues(func() (string, error) {
	root := filepath.Join(filepath.Dir(program), "attacked")
	out, err := exec.Command("sh", "-c", `set -e
mkdir -p "$1/repo/.githooks" "$1/home/.local/bin"
cd "$1/repo"
export HOME="$1/home" GIT_CONFIG_NOSYSTEM=1
git config --global user.name Ada; git config --global user.email ada@example.org
printf 'echo "Hello, ${1:-world}!"\n' > greet.sh
printf 'test "$(sh greet.sh Ada)" = "Hello, Ada!"\n' > test.sh
printf '#!/bin/sh\nexit 0\n' > .githooks/pre-commit; chmod +x .githooks/pre-commit
echo .env > .gitignore
git init -q -b main; git add -A; git commit -q -m first
"$2" init --agent rehearsal >/dev/null 2>&1
git add -A; git commit -q -m trellis`, "sh", root, program).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return root, nil
})

// target is a place to attack: a person's repository, home folder and programs.
type target struct {
	*site
	Root string
	Word string // unique to this target
}

const victim = "02-01-bye"

// newTarget returns a new target, with a sandbox of this mode.
func newTarget(t *testing.T, mode, settings string) *target {
	t.Helper()
	from, err := attacked()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := `cp -a "$1/." "$2"; mkdir "$2/bin"; ln "$3" "$2/bin/attacker" 2>/dev/null || cp "$3" "$2/bin/attacker"`
	if out, err := exec.Command("sh", "-c", script, "sh", from, root, self).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	word := fmt.Sprint(time.Now().UnixNano())
	env := []string{"WORD=" + word, "PATH=" + root + "/bin:" + root + "/home/.local/bin:" + os.Getenv("PATH"), "HOME=" + root + "/home", "TERM=xterm", "GIT_CONFIG_NOSYSTEM=1",
		"GORACE=atexit_sleep_ms=0", "GOGC=" + os.Getenv("GOGC"), "ROOT=" + root, "MAIN=" + root + "/repo", "TASK=" + root + "/repo/.trellis/tasks/" + victim}
	x := &target{&site{t, filepath.Join(root, "repo"), env}, root, word}
	x.write(".trellis/config.yaml", "agents: {default: rehearsal}\nverify: [sh test.sh]\nsandbox: "+mode+
		"\nprotected: [.trellis/**, test.sh, .githooks/**]\nlimits: {attempts: 1, rounds: 1, idle: 10m}\n"+settings)
	x.hand(victim)
	return x
}

// play writes the script of the agents: the implement role runs this shell script first, and the other roles approve everything.
func (x *target) play(script string) {
	x.Helper()
	guarded := "(" + script + "\n) >/dev/null 2>&1 </dev/null; sh test.sh && touch ../lied; true"
	x.write(".trellis/rehearsal.yaml", fmt.Sprintf("roles:\n  implement: [{run: [%q], answer: All done and tested.}]\n  check: [{answer: perfect}]\n"+
		"  debug: [{answer: fixed}]\n  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"greet.sh:1\"}]}}]\n", guarded))
}

// shell runs a shell script in the main checkout, and returns whether it succeeded and its output.
func (x *target) shell(script string) (bool, string) {
	x.Helper()
	code, out, errs := x.try("sh", "-c", script)
	return code == 0, out + errs
}

// said returns all that a person is told about the task: the output of the command that ran it, its report and its status.
func (x *target) said(run string) string {
	x.Helper()
	report, err := os.ReadFile(filepath.Join(x.Dir, ".trellis/tasks", victim, "report.md"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		run += err.Error()
	}
	_, out, errs := x.try(program, "status", victim)
	return run + string(report) + out + errs
}

// make runs the attack's task, and checks the result of the attack.
func (a attack) make(t *testing.T, mode string) {
	x := newTarget(t, mode, "")
	if ok, said := x.shell("set -e\n" + a.prepare); !ok {
		t.Fatal(said)
	}
	x.commit()
	x.play(a.script)
	_, out, errs := x.try(program, "start", victim)
	said := x.said(out + errs)
	x.write("../said", said)
	got, _ := x.shell(a.got)
	if _, err := os.Stat(x.beside("lied")); a.fools && mode == sandbox.Off && err != nil {
		t.Errorf("the attack is none: %v", err)
	}
	a.judge(t, mode, got, said)
}

// judge compares the result of an attack with the expected one.
func (a attack) judge(t *testing.T, mode string, got bool, said string) {
	t.Helper()
	switch want := a.of(mode); {
	case want.open != "" && !strings.Contains(promises(t), want.open):
		t.Errorf("docs/reference/trust.md does not say %q", want.open)
	case got && want == (fate{}):
		t.Errorf("it gets what it wants\n%s", said)
	case want.told != "" && !strings.Contains(said, want.told):
		t.Errorf("it is not told (got what it wants: %v): there is no %q in\n%s", got, want.told, said)
	case want.open != "" && !got:
		t.Log("it comes to nothing here; docs/reference/trust.md does not promise that")
	}
	if strings.Contains(said, "internal error") || strings.Contains(said, "panic:") {
		t.Errorf("it ends badly:\n%s", said)
	}
}

// promises returns the text of docs/reference/trust.md in one line.
func promises(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../docs/reference/trust.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}
