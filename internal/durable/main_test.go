package durable_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// roleEnv makes the test binary play one of roles instead of running tests.
const roleEnv = "DURABLE_TEST_ROLE"

var roles = map[string]func(args []string) error{
	"write-and-die":  func(a []string) error { return dyingDisk(a[0]).WriteFile(a[1], []byte(a[2]), 0o600) },
	"append-and-die": func(a []string) error { return dyingDisk(a[0]).Append(a[1], []byte(a[2]), 0o600) },
	"hold":           hold,
	"count":          count,
	"append":         appendMany,
	"person":         person,
	"append-lines":   appender,
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := roles[role](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play returns a command that runs the test binary in a role.
func play(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// dyingDisk returns a Disk that kills this process before the nth step.
func dyingDisk(nth string) *durable.Disk {
	n, _ := strconv.Atoi(nth)
	return &durable.Disk{Fault: func(string, string) error {
		if n--; n == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Minute) // the signal comes before this ends
		}
		return nil
	}}
}

var errInjected = errors.New("injected")

// breakingDisk returns a Disk whose nth step fails, none if n is 0, and the list of its steps so far.
func breakingDisk(n int) (*durable.Disk, *[]string) {
	steps := new([]string)
	return &durable.Disk{Fault: func(step, _ string) error {
		*steps = append(*steps, step)
		if len(*steps) == n {
			return errInjected
		}
		return nil
	}}, steps
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// names returns the names of the files in dir, separated by spaces.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, filepath.Base(e.Name()))
	}
	return strings.Join(list, " ")
}
