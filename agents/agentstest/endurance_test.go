package agentstest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// answers checks that the answer arrives, whatever else the program does.
func answers(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	if o := run(t, st.Agent, st.request(t, s.role(), "do it")); o.err != nil || !strings.HasSuffix(o.Text, Text) {
		t.Errorf("got %.300q, %v, want the text %q", o.Text, o.err, Text)
	}
}

// checkBabbles: output that is not an event is not a sign of life.
func checkBabbles(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	r := st.request(t, s.role(), "do it")
	r.Limits.Idle = time.Second
	if o := run(t, st.Agent, r); o.code(t) != trellis.TimeoutIdle {
		t.Errorf("got %v, want %s", o.err, trellis.TimeoutIdle)
	}
}

// checkPlods: a program with an event now and then is not idle, however long it takes. If the machine delays it for longer
// than the limit, it is tried again.
func checkPlods(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	const idle = 2 * time.Second
	var o outcome
	for end := time.Now().Add(Hang); time.Now().Before(end); {
		r := st.request(t, s.role(), "do it")
		r.Limits.Idle = idle
		if o = run(t, st.Agent, r); !errors.Is(o.err, &flow.Failure{Code: string(trellis.TimeoutIdle)}) || time.Since(o.last) < idle {
			break
		}
	}
	if o.err != nil || !strings.HasSuffix(o.Text, Text) || o.Usage.Seconds < 2.5 {
		t.Errorf("got %+v, %v", o.Result, o.err)
	}
}

// checkDeaf: a program that ignores all signals is killed; runIn checks that it is gone.
func checkDeaf(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	r := st.request(t, s.role(), "do it")
	r.Limits.Wall = time.Second
	began := time.Now()
	if o := run(t, st.Agent, r); o.code(t) != trellis.TimeoutWall {
		t.Errorf("got %v, want %s", o.err, trellis.TimeoutWall)
	}
	if took := time.Since(began); took > Hang {
		t.Errorf("it took %s", took)
	}
}

// EscapeScript is the shell command of [Escapes]. It leaves a file in its working directory, and so does the process that it starts.
const EscapeScript = "sleep 0.2; env -i setsid sh -c 'sleep 3000 >/dev/null 2>&1 & echo $! >escaped'"

// checkEscapes: a process that cut every tie except its origin is gone when the call ends.
func checkEscapes(t *testing.T, s Subject, b Behaviour) {
	if _, err := os.Stat("/proc/self/cwd"); err != nil {
		t.Skip("this system has nothing that tells where such a process came from")
	}
	st := s.Stage(t, b)
	if o := run(t, st.Agent, st.request(t, s.role(), "do it")); o.err != nil {
		t.Errorf("got %+v, %v", o.Result, o.err)
	}
	if _, err := os.Stat(filepath.Join(st.Dir, "escaped")); err != nil {
		t.Errorf("the tool did not run: %v", err)
	}
	for _, p := range workingIn(t, st.Dir) {
		t.Errorf("process %d is left", p.Pid)
		_ = p.Kill()
	}
}

// workingIn returns the processes whose working directory is dir, even if a sandbox gives them other pids.
func workingIn(t *testing.T, dir string) (found []*os.Process) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err != nil || at != dir {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if p, err := os.FindProcess(pid); err == nil && pid != os.Getpid() {
			found = append(found, p)
		}
	}
	return found
}

// checkMute: exit 0 without output does not count as work. A program whose output is only text may work silently; the tree
// shows whether it did.
func checkMute(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	if o := run(t, st.Agent, st.request(t, trellis.Evaluate, "judge it")); o.code(t) != trellis.EmptyOutput || o.has(agents.EventResult) {
		t.Errorf("got %v, want %s", o.err, trellis.EmptyOutput)
	}
}
