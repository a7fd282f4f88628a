package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// A tool of the experiment writes a line outside of the repository when it begins, which must not happen twice, and
// another one when it ends. The second tool does the task.
const (
	toolScript = `if [ "$1" = 2 ]; then cp bye.sh greet.sh; fi
echo "$1 began" >>"$TMPDIR/effects"
sleep 0.3
echo "$1 ended" >>"$TMPDIR/effects"
sleep 0.1
echo "tool $1 is done"
`
	lookScript = `if grep -q "^$1 began" "$TMPDIR/effects" 2>/dev/null; then echo "look $1: there"; else echo "look $1: absent"; fi
`
	tools = 3
)

// crash is a repository whose agent works with tools and a model that believes what its conversation shows, and
// whose run is killed at a moment.
type crash struct {
	*site
	cli    string
	server *modelserver.Server
	tmp    string // TMPDIR of agents

	mu      sync.Mutex
	at      string   // the moment to kill the run at
	kill    func()   // kills all processes of the run; nil once it has
	moments []string // seen so far
	asked   int      // requests of the implement role
	looks   int
	after   []modelserver.Request // requests since the kill
}

// reach records a moment; at the chosen one it kills all processes before it returns.
func (c *crash) reach(moment string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moments = append(c.moments, moment)
	if c.at == moment && c.kill != nil {
		c.kill()
		c.kill = nil
	}
}

func newCrash(t *testing.T, cli string) *crash {
	t.Helper()
	c := &crash{cli: cli}
	c.site, c.server = scene(t, cli, c.script)
	for _, e := range c.Env {
		if dir, ok := strings.CutPrefix(e, "TMPDIR="); ok {
			c.tmp = dir
		}
	}
	c.write("tool.sh", toolScript)
	c.write("look.sh", lookScript)
	c.write("bye.sh", changed)
	c.run("git", "add", "-A")
	c.run("git", "commit", "-q", "-m", "tools")
	c.rehearse("A1") // only the agent that works is to be killed
	c.hand("02-01-bye")
	return c
}

// script is a model that works with one tool after the other and believes its conversation: a tool that is shown as done
// is done, and one that only began is checked.
func (c *crash) script(r modelserver.Request) modelserver.Turn {
	c.mu.Lock()
	c.asked++
	n := c.asked
	if c.kill == nil && c.at != "" {
		c.after = append(c.after, r)
	}
	c.mu.Unlock()
	c.reach(fmt.Sprintf("request %d comes", n))
	turn := c.next(string(r.Raw))
	turn.Half = func() { c.reach(fmt.Sprintf("answer %d is half sent", n)) }
	turn.Sent = func() { c.reach(fmt.Sprintf("answer %d is sent", n)) }
	return turn
}

func (c *crash) next(conversation string) modelserver.Turn {
	for n := 1; n <= tools; n++ {
		does := func(format string) bool { return strings.Contains(conversation, fmt.Sprintf(format, n)) }
		switch {
		case does("tool %d is done"), does("look %d: there"):
		case does("sh tool.sh %d") && !does("look %d: absent"):
			c.mu.Lock()
			c.looks++
			c.mu.Unlock()
			return modelserver.Turn{Calls: []modelserver.Call{modelserver.Shell(fmt.Sprintf("sh look.sh %d", n))}}
		default:
			return modelserver.Turn{Text: fmt.Sprintf("Now number %d.", n), Calls: []modelserver.Call{modelserver.Shell(fmt.Sprintf("sh tool.sh %d", n))}}
		}
	}
	return modelserver.Turn{Text: "Done."}
}

// lines returns the complete lines of a file.
func lines(path string) []string {
	data, _ := os.ReadFile(path)
	whole := string(data[:strings.LastIndexByte(string(data), '\n')+1])
	return strings.Split(strings.TrimSuffix(whole, "\n"), "\n")
}

// results are the markers by which the stream of each program shows that it has given its result.
var results = map[string]string{"claude": `"type":"result"`, "codex": `"type":"turn.completed"`, "opencode": `"reason":"stop"`}

// follow reports moments that the model does not see, until stop is closed.
func (c *crash) follow(stop <-chan struct{}) {
	said, session, result := 0, false, false
	for {
		for _, line := range lines(filepath.Join(c.tmp, "effects"))[said:] {
			if line != "" {
				said++
				c.reach("tool " + line)
			}
		}
		for _, stream := range c.entries("stream.jsonl") {
			text := strings.Join(lines(stream), "\n")
			if !session && text != "" {
				session = true
				c.reach("the first event comes")
			}
			if !result && strings.Contains(text, results[c.cli]) {
				result = true
				c.reach("the result comes")
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// entries returns the files of this name of the implement call, one for each time that the call was begun.
func (c *crash) entries(name string) []string {
	found, _ := filepath.Glob(filepath.Join(c.Dir, ".trellis/tasks/02-01-bye/run/*/implement#1/*", name))
	return found
}

// until runs the task up to a moment, at which all of its processes are killed, or to its end if moment is "".
func (c *crash) until(t *testing.T, moment string) {
	t.Helper()
	cmd := exec.Command(program, "start", "02-01-bye")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = c.Dir, c.Env, apart()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.at = moment
	c.kill = func() { c.killAll(cmd.Process.Pid) }
	c.mu.Unlock()
	stop := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() { c.follow(stop) })
	err = cmd.Wait()
	close(stop)
	following.Wait()
	c.mu.Lock()
	killed := c.kill == nil
	c.kill = nil
	c.mu.Unlock()
	if said, _ := os.ReadFile(out.Name()); killed != (moment != "") || err != nil && !killed {
		t.Fatalf("%s: killed %v, ended with %v\n%s", moment, killed, err, said)
	}
}

// killAll kills guard, worker, agent and tools, as if the machine lost power.
func (c *crash) killAll(guard int) {
	_ = syscall.Kill(guard, syscall.SIGKILL)
	for range 3 {
		for _, pid := range belonging(c.Dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// outcome is the result of a kill and a restart.
type outcome struct {
	session, anew, record bool   // the agent resumed its session, began another one, or had already given its result
	lost                  bool   // it began another session although it had worked in the first
	tools, asked          int    // tool calls and requests beyond those of an undisturbed run, except for the one that was cut off
	looks                 int    // requests in which the model first checked whether a tool call had its effect
	wrong                 string // how the end differs from that of an undisturbed run
}

// finish starts the task again and compares the result with that of an undisturbed run. past are the moments up to the
// kill.
func (c *crash) finish(past []string) (o outcome) {
	code, _, errs := c.try(program, "start", "02-01-bye")
	c.mu.Lock()
	defer c.mu.Unlock()
	o.looks = c.looks
	o.asked = c.asked - (tools + 1) - c.looks
	if cutOff(past) {
		o.asked--
	}
	for _, line := range lines(filepath.Join(c.tmp, "effects")) {
		if strings.HasSuffix(line, "began") {
			o.tools++
		}
	}
	o.tools -= tools
	switch worked := strings.Contains(strings.Join(past, ","), "tool 1"); {
	case len(c.after) == 0:
		o.record = true
	case strings.Count(string(c.after[0].Raw), "# Your part: implement") > 1: // the first prompt, and the one that resumes the session
		o.session = true
	default:
		o.anew, o.lost = true, worked
	}
	var task struct{ Status string }
	switch err := json.Unmarshal([]byte(c.read(".trellis/tasks/02-01-bye/task.json")), &task); {
	case err != nil || code != 0 || task.Status != "review":
		o.wrong = fmt.Sprintf("exit %d, status %s, %v: %s", code, task.Status, err, errs)
	case c.run("git", "rev-list", "--count", "main..feature/bye") != "1":
		o.wrong = "not one commit"
	case c.run("git", "show", "feature/bye:greet.sh")+"\n" != changed:
		o.wrong = "another tree"
	case len(belonging(c.Dir)) > 0:
		o.wrong = "processes are left"
	}
	return o
}

// cutOff reports whether a request was in flight at the last of the moments: it had arrived, and nothing that the agent
// did shows that its answer had.
func cutOff(past []string) bool {
	for _, moment := range slices.Backward(past) {
		if what, _, _ := strings.Cut(moment, " "); what != "the" {
			return what != "tool"
		}
		if moment == "the result comes" {
			return false
		}
	}
	return false
}

// result sums up outcomes as a row of the table in docs/reference/agents.md.
func result(cli string, all []outcome) string {
	n := map[string]int{}
	count := func(what string, is bool) {
		if is {
			n[what]++
		}
	}
	for _, o := range all {
		count("session", o.session)
		count("anew", o.anew)
		count("record", o.record)
		count("lost", o.lost)
		count("wrong", o.wrong != "")
		n["tools"] += o.tools
		n["asked"] += o.asked
		n["looks"] += o.looks
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |", cli, len(all), n["session"], n["anew"], n["record"], n["lost"], n["tools"],
		n["asked"], n["looks"], n["wrong"])
}

// TestKilledAgents kills runs with the real programs at the moments of an undisturbed run, and starts them again: no
// session that an agent worked in is lost, no tool runs twice, no answer that had arrived is requested again, and each
// run ends like an undisturbed one. With TRELLIS_SOAK it tries all moments, otherwise a few.
func TestKilledAgents(t *testing.T) {
	for i, cli := range clis {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			seldom(t, cli, "codex", "codex")
			calm := newCrash(t, cli)
			calm.until(t, "")
			t.Logf("%d moments: %q", len(calm.moments), calm.moments)
			var all []outcome
			for n, moment := range calm.moments {
				if !soak.Asked() && (n%18 != 6*i+1 || i == 0 && n < 18) {
					continue
				}
				c := newCrash(t, cli)
				c.until(t, moment)
				o := c.finish(calm.moments[:n+1])
				t.Logf("%-24s %+v", moment, o)
				if o.lost || o.tools != 0 || o.asked > 0 || o.wrong != "" {
					t.Errorf("%s: %+v", moment, o)
				}
				all = append(all, o)
			}
			t.Logf("%d of %d moments: %s", len(all), len(calm.moments), result(cli, all))
		})
	}
}
