package proc_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// roleEnv makes the test binary play one of roles instead of running tests.
const roleEnv = "PROC_TEST_ROLE"

var roles = map[string]func(args []string) int{
	"flood":    flood,
	"tree":     tree,
	"inside":   inside,
	"guarded":  guarded,
	"orphan":   orphan,
	"two-asks": twoAsks,
	"reloads":  reloads,
	"ignoring": ignoring,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(roles[role](os.Args[1:]))
	}
	gittest.HearSignals() // edge A16
	gittest.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// play returns a Command that runs the test binary in a role.
func play(role string, args ...string) proc.Command {
	return proc.Command{Argv: append([]string{os.Args[0]}, args...), Env: roleEnviron(role), Stderr: os.Stderr}
}

func roleEnviron(role string) []string {
	return []string{roleEnv + "=" + role, "GORACE=atexit_sleep_ms=0", "PATH=" + os.Getenv("PATH")}
}

func shell(script string) proc.Command {
	return proc.Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Stderr: os.Stderr}
}

// run runs a command that must not fail and returns its output.
func run(t *testing.T, c proc.Command) (proc.Result, string) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout = &out
	r, err := proc.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("running %v: %v", c.Argv, err)
	}
	return r, out.String()
}

// flood writes the number of MB that its argument says, and "the end" as the last line.
func flood(args []string) int {
	n, _ := strconv.Atoi(args[0])
	line := []byte(strings.Repeat("x", 1023) + "\n")
	w := bufio.NewWriter(os.Stdout)
	for range n << 10 {
		w.Write(line)
	}
	w.WriteString("the end")
	w.Flush()
	return 0
}

// tree starts the tools that an agent may leave behind, prints a line "<kind> <pid>" for each and then
// "ready", and stays until it is killed (or ends at once with the argument "leave"). With "hide" it also starts a tool
// without any mark that tells where it came from.
func tree(args []string) int {
	tool("group", nil, nil)
	tool("session", nil, &syscall.SysProcAttr{Setsid: true})
	tool("bare", []string{}, nil)
	if runtime.GOOS == "linux" { // elsewhere nothing tells where such a tool came from
		tool("daemon", []string{}, &syscall.SysProcAttr{Setsid: true})
	}
	if slices.Contains(args, "hide") {
		if err := dropMark(); err != nil {
			fmt.Println(err)
			return 1
		}
		tool("hidden", []string{}, &syscall.SysProcAttr{Setsid: true})
	}
	fmt.Println("agent", os.Getpid())
	fmt.Println("ready")
	if slices.Contains(args, "leave") {
		return 0
	}
	stay()
	return 0
}

// dropMark removes the mark of the call from this process, and from the processes that it starts from now on.
func dropMark() error {
	const rttime = 15 // RLIMIT_RTTIME
	var limit unix.Rlimit
	if err := unix.Getrlimit(rttime, &limit); err != nil {
		return err
	}
	return unix.Setrlimit(rttime, &unix.Rlimit{Cur: limit.Max, Max: limit.Max})
}

// stay never returns. It does not look like a deadlock to the runtime.
func stay() {
	for {
		time.Sleep(time.Hour)
	}
}

// tool starts a tool of that kind, a sleep that keeps stdout open, and prints the kind and the pid.
func tool(kind string, env []string, attr *syscall.SysProcAttr) {
	sleep, _ := exec.LookPath("sleep")
	cmd := exec.Command(sleep, "3000")
	cmd.Env, cmd.SysProcAttr, cmd.Stdout = env, attr, os.Stdout
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(kind, cmd.Process.Pid)
}

// lines is a writer that sends what it gets to c, line by line.
type lines struct {
	mu   sync.Mutex
	rest string
	c    chan string
}

func newLines() *lines { return &lines{c: make(chan string, 1000)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest += string(p)
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok {
			return len(p), nil
		}
		l.rest = rest
		l.c <- line
	}
}

// next returns the next line. It fails the test if there is none within 15 minutes.
func (l *lines) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-l.c:
		return line
	case <-time.After(15 * time.Minute):
		t.Fatal("no line within 15 min")
		return ""
	}
}

// pids reads "<kind> <pid>" lines up to "ready".
func (l *lines) pids(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	for {
		line := l.next(t)
		if line == "ready" {
			return found
		}
		kind, pid, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatalf("got line %q", line)
		}
		found[kind] = n
	}
}

// marker returns a marker that no other run of the tests has.
func marker(name string) string { return fmt.Sprintf("%s-%d", name, os.Getpid()) }

func alive(pid int) bool { return proc.ID{PID: pid}.Alive() }

// wantGone fails the test for every process that is still alive, and kills the process.
func wantGone(t *testing.T, pids map[string]int) {
	t.Helper()
	for kind, pid := range pids {
		if alive(pid) {
			t.Errorf("%s, process %d, is alive", kind, pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// eventually waits until a condition holds. It fails the test after 15 minutes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 15 min: %s", what)
		}
	}
}

// blocked is a reader that blocks until c is closed, and then returns io.EOF.
type blocked struct{ c chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	<-b.c
	return 0, io.EOF
}
