package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// Rates are measured, and not checked: tasks per hour by the number of machines that share them, with agents that take no time and
// agents that work for five seconds, and the resources of the server and a machine. The table is in docs/guides/cluster.md.
func TestRates(t *testing.T) {
	if !soak.Asked() {
		t.Skip("it measures for minutes: TRELLIS_SOAK=1 go test -run TestRates -v .")
	}
	for _, works := range []string{"0", "5"} {
		for _, machines := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("agents of %s s, %d machines", works, machines), func(t *testing.T) { rate(t, works, machines) })
		}
	}
}

func rate(t *testing.T, works string, machines int) {
	const tasks = 24
	w := newWorld(t, 10*time.Second)
	script, err := os.ReadFile(w.dir + "/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	w.write("agent.sh", strings.Replace(string(script), "echo $TRELLIS_TASK_ID >work.txt", "sleep "+works+"; echo $TRELLIS_TASK_ID >work.txt", 1))
	w.write("bare.git/hooks/post-receive", "#!/bin/sh\nread line && echo pushed >>"+w.dir+"/pushes\n")
	if err := os.Chmod(w.dir+"/bare.git/hooks/post-receive", 0o755); err != nil {
		t.Fatal(err)
	}
	a := w.machine("a")
	var names []string
	for i := range tasks {
		names = append(names, fmt.Sprintf("02-01-task-%02d", i))
		a.lay(names[i])
		a.must("submit", names[i])
	}
	submitted := w.lines("pushes")
	began := time.Now()
	var one *serving
	for i := range machines {
		one = w.machine(fmt.Sprint("m", i)).serve("--parallel", "2")
	}
	for left := tasks; left > 0; time.Sleep(200 * time.Millisecond) { // how often the tasks are checked, which costs time too
		left = tasks
		a.says("pull")
		for _, name := range names {
			if a.told(name) == "review" {
				left--
			}
		}
	}
	took := time.Since(began)
	events := 0
	for _, name := range names {
		events += w.srv.events(name)
	}
	t.Logf("%.0f tasks an hour, %.1f pushes and %.1f events a task, %d MB a machine, %d MB the server", tasks/took.Hours(), float64(w.lines("pushes")-submitted)/tasks, float64(events)/tasks,
		resident(t, one.Process.Pid), resident(t, w.srv.cmd.Process.Pid))
}

// lines returns the number of lines of a file.
func (w *world) lines(file string) int {
	w.t.Helper()
	data, err := os.ReadFile(w.dir + "/" + file)
	if err != nil {
		w.t.Fatal(err)
	}
	return bytes.Count(data, []byte("\n"))
}

// resident returns the memory that a process uses, in MB, or 0 if the system does not tell.
func resident(t *testing.T, pid int) (mb int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Log(err) // another system
		return 0
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	if _, err := fmt.Sscan(rest, &mb); err != nil {
		t.Error(err)
	}
	return mb / 1024
}
