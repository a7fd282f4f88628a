package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// outliving is a script that starts a process which is to be there when its call is over. $W, a number of seconds, is in the
// process's command line, and in nobody else's.
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

// survives are those that nothing ends without a sandbox.
var survives = map[string]bool{"a unit": true, "at": true, "cron": true}

// TestOutlives: no process that an agent started is there when its task is done.
func TestOutlives(t *testing.T) {
	t.Parallel()
	for _, mode := range bothModes(t) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x := newTarget(t, mode, "")
			script, names := "echo '# work' >> greet.sh\n", map[string]string{}
			for i, o := range outlivings {
				if mode == sandbox.Off && survives[o.name] {
					continue // it would stay
				}
				word := strconv.Itoa(3000+i) + "." + x.Word
				names[word] = o.name
				script += "W=" + word + "; " + o.script + "\n"
			}
			x.commit()
			x.play(script + "sleep 0.1")
			_, out, errs := x.try(program, "start", victim)
			x.nobody(names)
			if said := out + errs; !strings.Contains(said, "02-01-bye is done") {
				t.Error(said)
			}
		})
	}
}

// nobody fails for each process that is there, and ends it.
func (x *target) nobody(names map[string]string) {
	x.Helper()
	for word, name := range names {
		if pids := named(word); len(pids) > 0 {
			x.Errorf("%s: processes %d are there", name, pids)
			end(word)
		}
	}
}

// named are the processes with a word in their command line.
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

// end ends those.
func end(word string) {
	for range 10 {
		for _, pid := range named(word) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
