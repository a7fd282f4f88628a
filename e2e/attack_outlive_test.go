package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// outliving is a script that starts a process which tries to outlive its call. $W, a number of seconds, is in the command line
// of this process and of no other.
type outliving struct{ name, script string }

var outlivings = []outliving{
	{"in the background", "sleep $W &"},
	{"nohup", "nohup sleep $W &"},
	{"in a session", "setsid sleep $W &"},
	{"without environment", "env -i sleep $W &"},
	{"forked twice", "(setsid sh -c \"sleep $W & exit 0\" &)"},
	{"forked twice without environment", "env -i PATH=$PATH setsid sh -c \"(setsid sleep $W &) & exit 0\""},
	{"in another folder", "(cd /; env -i setsid sleep $W &)"},
	{"deaf", "setsid sh -c \"trap '' TERM HUP INT QUIT; sleep $W; sleep $W\" &"},
	{"stopped", "setsid sh -c \"kill -STOP \\$\\$; sleep $W\" &"},
	{"with the call's output", "setsid sleep $W >&2 &"},
	{"without limits", "attacker outlive $W"},
	{"with another name", "cp $(command -v sleep) ./kworker; (env -i setsid ./kworker $W &); rm kworker"},
	{"of a false parent", "(setsid sh -c \"exec setsid sh -c 'env -i sleep $W &' &\" &)"},
	{"that waits", "(setsid sh -c \"sleep 0.3; env -i setsid sleep $W &\" &)"},
	{"that comes back", "attacker hydra $W"},
	{"many", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do setsid sleep $W & done"},
	{"at", "echo \"sleep $W\" | at now"},
	{"cron", "(crontab -l; echo \"* * * * * sleep $W\") | crontab -; crontab -r"},
	{"a unit", "systemd-run --user --collect sleep $W"},
}

// survives names the outlivings that nothing ends without a sandbox.
var survives = map[string]bool{"a unit": true, "at": true, "cron": true}

// census is a shell command that records which of these processes are alive while a check runs.
const census = "for f in /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < $f; done 2>/dev/null | grep -x '3[0-9]*\\.%s' | sort -u >> ../alive; true\n"

// TestOutlives: no process that an agent started is alive when its call is over, nor when its task is done.
func TestOutlives(t *testing.T) {
	t.Parallel()
	for _, mode := range bothModes(t) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x := newTarget(t, mode, "")
			script, names := "echo '# work' >> greet.sh\n", map[string]string{}
			for i, o := range outlivings {
				if mode == sandbox.Off && survives[o.name] {
					continue // the process would stay
				}
				word := strconv.Itoa(3000+i) + "." + x.Word
				names[word] = o.name
				script += "W=" + word + "; " + o.script + "\n"
			}
			x.write("census.sh", fmt.Sprintf(census, x.Word))
			x.write(".trellis/config.yaml", strings.Replace(x.read(".trellis/config.yaml"), "sh test.sh", "sh census.sh, sh test.sh", 1))
			x.commit()
			x.play(script + "sleep 0.1")
			_, out, errs := x.try(program, "start", victim)
			alive, _ := os.ReadFile(x.beside("alive"))
			for _, word := range strings.Fields(string(alive)) {
				t.Errorf("%s: it is there while the work is checked", names[word])
			}
			x.nobody(names)
			if said := out + errs; !strings.Contains(said, "next: trellis diff 02-01-bye") {
				t.Error(said)
			}
		})
	}
}

// nobody fails for each of the named processes that is alive, and kills it.
func (x *target) nobody(names map[string]string) {
	x.Helper()
	for word, name := range names {
		if pids := named(word); len(pids) > 0 {
			x.Errorf("%s: processes %d are there", name, pids)
			end(word)
		}
	}
}

// above sets the pids of the trellis processes that started the agent's call: the worker, the guard, and all, with those in between.
const above = `parent() { sed -n 's/^PPid:\t//p' /proc/$1/status; }
p=$$; WORKER=; ALL=; while [ "$p" -gt 1 ]; do case $(cat /proc/$p/comm) in trellis) [ -n "$WORKER" ] && GUARD=$p || WORKER=$p; ALL="$ALL $p";; esac; p=$(parent $p); done
test -n "$WORKER" && test ! -e ../once || exit 0; touch ../once || exit 0
attacker outlive $W; (env -i setsid sleep $W &); sleep 0.1
`

// TestEndsItsKeepers: an agent that kills the processes that watch over it leaves none behind, and the next start does its work.
func TestEndsItsKeepers(t *testing.T) {
	t.Parallel()
	for i, keeper := range []struct{ name, script string }{
		{"the worker", "kill -9 $WORKER; sleep 5"},
		{"the guard", "kill -9 $GUARD; sleep 5"},
		{"both", "kill -9 $GUARD $WORKER; sleep 5"},
		{"both, stopped", "kill -STOP $GUARD $WORKER; kill -9 $WORKER $GUARD; sleep 5"},
		{"all, from the worker", "kill -9 $ALL; sleep 5"},
		{"all, stopped", "kill -STOP $ALL; kill -9 $ALL; sleep 5"},
		{"all, and the helpers", "for f in /proc/[0-9]*; do grep -qs '^PPid:.\\('$(echo $ALL | sed 's/ /\\\\|/g')'\\)$' $f/status && test \"$(cat $f/comm)\" = trellis && ALL=\"$ALL ${f#/proc/}\"; done; kill -STOP $ALL; kill -9 $ALL; sleep 5"},
	} {
		name, script := keeper.name, keeper.script
		for _, mode := range modes(t, i) {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				x := newTarget(t, mode, "")
				word := "3000." + x.Word
				x.commit()
				x.play("echo '# work' >> greet.sh; W=" + word + "\n" + above + script)
				_, out, errs := x.try(program, "start", victim)
				if !x.delivered(t, victim) {
					_, more, evenMore := x.try(program, "start", victim)
					out, errs = out+more, errs+evenMore
				}
				if _, err := proc.CgroupFolder(); err != nil && mode == sandbox.Off && strings.HasPrefix(name, "all") {
					end(word) // docs/reference/trust.md: such a process can survive then
				}
				x.nobody(map[string]string{word: name})
				if n := x.run("git", "rev-list", "--count", "main..feature/bye"); n != "1" || !x.delivered(t, victim) {
					t.Errorf("%s commits\n%s", n, x.said(out+errs))
				}
			})
		}
	}
}

// TestStopsItsKeepers: an agent that stops the processes that watch over it delays them only until somebody continues them.
func TestStopsItsKeepers(t *testing.T) {
	t.Parallel()
	x := newTarget(t, sandbox.Off, "")
	word := "3000." + x.Word
	x.commit()
	x.play("echo '# work' >> greet.sh; W=" + word + "\n" + above + "touch ../stopped; kill -STOP $GUARD $WORKER")
	cmd, out := x.background("start", victim)
	x.waitFor(func() bool { return stopped(cmd.Process.Pid) }, "nobody stops the guard")
	worker := child(t, cmd.Process.Pid)
	x.waitFor(func() bool { return stopped(worker) }, "nobody stops the worker") // the worker is stopped after the guard
	for _, pid := range []int{worker, cmd.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil || !x.delivered(t, victim) {
		t.Errorf("%v\n%s", err, out)
	}
	x.nobody(map[string]string{word: "without environment"})
}

// stopped reports whether a process was stopped by a signal.
func stopped(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(data), ") ")
	return err == nil && strings.HasPrefix(rest, "T")
}

// named returns the pids of the processes with word in their command line.
func named(word string) (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		if data, err := os.ReadFile(line); err == nil && strings.Contains(string(data), word) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(line)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// end kills the processes with word in their command line, ten times over.
func end(word string) {
	for range 10 {
		for _, pid := range named(word) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// TestPoisonAndKill, edge S1: the process that resumes a run also sees the trees of the base as their names say, whatever an agent
// did to them and to the timestamps by which the process detects changes, before it killed the process that would have noticed.
func TestPoisonAndKill(t *testing.T) {
	t.Parallel()
	x := newTarget(t, sandbox.Off, "")
	if ok, said := x.shell("mv test.sh .githooks/check.sh; echo sh .githooks/check.sh > test.sh"); !ok {
		t.Fatal(said)
	}
	x.commit()
	x.play(nonsense + "echo exit 0 > .githooks/check.sh; test ! -e ../once || exit 0; cp .githooks/check.sh test.sh; W=3000." + x.Word + "\n" + lies + `git checkout -q test.sh
REAL=$(git rev-parse HEAD:.githooks/check.sh); FAKE=$(git hash-object -w .githooks/check.sh)
overwrite $(git rev-parse HEAD:.githooks) $(git ls-tree HEAD:.githooks | sed "s/$REAL/$FAKE/" | git mktree)
sleep 0.1; cat $(git rev-parse --git-dir)/commondir > ../c; cp ../c $(git rev-parse --git-dir)/commondir
` + above + "kill -9 $GUARD $WORKER; sleep 5")
	_, out, errs := x.try(program, "start", victim)
	end("3000." + x.Word)
	if _, err := os.Stat(x.beside("once")); err != nil || x.delivered(t, victim) {
		t.Fatalf("nobody was ended: %s", x.said(out+errs))
	}
	_, more, evenMore := x.try(program, "start", victim)
	said := x.said(out + more + errs + evenMore)
	if got, _ := x.shell(forged); got {
		t.Errorf("it gets what it wants\n%s", said)
	}
	if !strings.Contains(said, "is not what its name says") {
		t.Errorf("it is not said\n%s", said)
	}
}

// TestBorrowAndKill, edge S1: the process that resumes a run knows from the journal where git borrowed objects when the run began,
// whatever timestamps an agent set before it killed the process that would have noticed. An earlier source counts, even if touched.
func TestBorrowAndKill(t *testing.T) {
	t.Parallel()
	const borrow = `O=$(git rev-parse --git-path objects); mkdir ../own; (cd ../own && pwd) > $O/info/alternates; GIT_OBJECT_DIRECTORY=$PWD/../own git add -A
sleep 0.1; cat $(git rev-parse --git-dir)/commondir > ../c; cp ../c $(git rev-parse --git-dir)/commondir
`
	for name, c := range map[string]struct {
		before, script string
		delivered      bool
	}{
		"an agent's": {"", borrow, false},
		"a person's": {"git init -q --bare ../lender && (cd ../lender/objects && pwd) > .git/objects/info/alternates", "chmod g+w $(git rev-parse --git-path objects/info/alternates)\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTarget(t, sandbox.Off, "")
			if ok, said := x.shell(c.before); !ok {
				t.Fatal(said)
			}
			x.commit()
			x.play("echo '# work' >> greet.sh; test ! -e ../once || exit 0; W=3000." + x.Word + "\n" + c.script + above + "kill -9 $GUARD $WORKER; sleep 5")
			_, out, errs := x.try(program, "start", victim)
			end("3000." + x.Word)
			if _, err := os.Stat(x.beside("once")); err != nil || x.delivered(t, victim) {
				t.Fatalf("nobody was ended: %s", x.said(out+errs))
			}
			_, more, evenMore := x.try(program, "start", victim)
			said := x.said(out + more + errs + evenMore)
			if x.delivered(t, victim) != c.delivered || c.delivered == strings.Contains(said, "has git take objects from") {
				t.Errorf("delivered %v\n%s", !c.delivered, said)
			}
		})
	}
}
