package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// memory is the memory limit of a process under test, in KB: a process that reads an endless file whole dies of it.
const memory = "2000000"

// within returns a command that runs trellis under that limit.
func (s *site) within(args ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", "ulimit -v " + memory + `; exec "$@"`, "sh", program}, args...)...)
	cmd.Dir, cmd.Env = s.Dir, append(slices.Clone(s.Env), "GOGC=100")
	return cmd
}

// bounded runs trellis under the limit and returns its exit code and all output. It fails if the command hangs.
func (s *site) bounded(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	cmd := s.within(args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(hang, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !late.Stop() {
		t.Fatalf("trellis %v hangs\n%s", args, out.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if _, crash, crashed := strings.Cut(out.String(), "fatal error: "); crashed || strings.Contains(out.String(), "goroutine ") {
		t.Fatalf("trellis %v crashed: %.3000s\n%.3000s", args, crash, out.String())
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// hostiles create what somebody may put in place of a file, by kind.
var hostiles = map[string]func(path string) error{
	"endless": func(path string) error { return os.Symlink("/dev/zero", path) },
	"outside": func(path string) error { return os.Symlink(strings.Repeat("../", 12)+"etc/hostname", path) },
	"git":     func(path string) error { return os.Symlink("../../../.git/config", path) },
	"circle":  func(path string) error { return os.Symlink(filepath.Base(path), path) },
	"pipe":    func(path string) error { return syscall.Mkfifo(path, 0o644) },
	"socket":  func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o644, 0) },
	"folder":  func(path string) error { return os.Mkdir(path, 0o755) },
	"sparse":  func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 10<<30)) },
	"one-line": func(path string) error {
		return errors.Join(os.WriteFile(path, []byte("{"), 0o644), os.Truncate(path, 300<<20))
	},
	"secret": func(path string) error {
		return errors.Join(os.WriteFile(path, []byte("{}"), 0o644), os.Chmod(path, 0))
	},
}

// hostileText has texts of regular files that are not valid content, by kind.
var hostileText = map[string]string{
	"deep":  strings.Repeat(`[`, 900_000),
	"lines": strings.Repeat("{}\n", 1_000_000),
}

// hostileTasks returns the hostile kinds to try for each file of a task's directory.
func hostileTasks() map[string][]string {
	every := []string{"endless", "outside", "git", "circle", "pipe", "socket", "folder", "sparse", "one-line", "secret"}
	kinds := map[string][]string{
		"run": {"endless", "outside", "circle", "pipe", "socket"}, "run/lock": {"endless", "outside", "circle", "pipe", "socket", "folder"},
		"run/write.lock": {"endless", "pipe", "folder"}, "run/journal.jsonl": {"endless", "outside", "pipe", "folder"},
	}
	for _, file := range []string{"requirement.md", "info.md", "design.md", "research.md", "approvals.jsonl", "proofs.jsonl", "report.md", "REJECTED.md", ".plan-log"} {
		kinds[file] = every
	}
	for _, file := range []string{"task.json", "prd.md", "taskspec.json", "plan.json"} {
		kinds[file] = append([]string{"deep"}, every...)
	}
	for _, file := range []string{"implement.jsonl", "check.jsonl", "debug.jsonl", "more.jsonl"} {
		kinds[file] = append([]string{"deep", "lines"}, every...)
	}
	kinds["prd.md"] = every // the kind deep is valid text here
	return kinds
}

// put replaces a file by something hostile.
func (s *site) put(file, kind string) {
	s.Helper()
	path := filepath.Join(s.Dir, filepath.FromSlash(file))
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o755)); err != nil {
		s.Fatal(err)
	}
	if text, ok := hostileText[kind]; ok {
		s.write(file, text)
	} else if err := hostiles[kind](path); err != nil {
		s.Fatal(err)
	}
}

// passes reports whether a kind is harmless for the user who runs the test.
func passes(kind string) bool { return kind == "secret" && os.Geteuid() == 0 }

// delivered reports whether a task has its commit.
func (s *site) delivered(t *testing.T, id string) bool {
	t.Helper()
	var task struct{ Status string }
	data, err := os.ReadFile(filepath.Join(s.Dir, ".trellis/tasks", id, "task.json"))
	return err == nil && json.Unmarshal(data, &task) == nil && task.Status == "review"
}

// Edges F4, F6, S4, S5, S10: whatever replaces any file of a task's directory is reported with the file and the remedy, and
// the healthy task beside it is delivered. Neither memory nor time runs out, and a signal ends the watcher.
func TestHostileTaskDirectories(t *testing.T) {
	t.Parallel()
	s := played(t, atOnce)
	if os.Geteuid() == 0 {
		t.Log("root reads what nobody may: files of mode 000 are as others here")
	}
	want := map[string]string{} // file by task
	for file, kinds := range hostileTasks() {
		for _, kind := range kinds {
			if passes(kind) || kind == "folder" && (file == "debug.jsonl" || file == "more.jsonl") { // a folder is not a context file
				continue
			}
			id := fmt.Sprintf("03-01-h%03d", len(want))
			s.hand(id)
			s.put(".trellis/tasks/"+id+"/"+file, kind)
			want[id] = ".trellis/tasks/" + id + "/" + file
		}
	}
	if err := os.Symlink("../workflow.md", filepath.Join(s.Dir, ".trellis/tasks/03-02-link")); err != nil {
		t.Fatal(err)
	}
	want["03-02-link"] = ".trellis/tasks/03-02-link"
	code, said := s.bounded(t, "validate", "--all")
	if code != 3 {
		t.Errorf("validate: exit %d, want 3", code)
	}
	s.told(t, "validate", said, want)
	if code, said = s.bounded(t, "watch", "--once"); !s.delivered(t, "02-01-bye") {
		t.Fatalf("watch --once: exit %d, the healthy task is not delivered: %.2000s", code, said)
	}
	s.told(t, "watch --once", said, want)
	s.watched(t)
}

// atOnce is an agent that works without waiting.
var atOnce = strings.Replace(sleepy, "    - run: [\"test -f ../go || { setsid sleep 3001 & echo $$ > ../begun; sleep 3000; }\"]\n      files", "    - files", 1)

// told checks that the output said names each file.
func (s *site) told(t *testing.T, by, said string, want map[string]string) {
	t.Helper()
	for id, file := range want {
		if !strings.Contains(said, file+": ") && !strings.Contains(said, file+":1") {
			st, _ := os.Lstat(filepath.Join(s.Dir, file))
			t.Errorf("%s does not name %s (%v), of %s", by, file, st.Mode(), id)
		}
	}
}

// watched starts a watcher, waits until it has delivered a second healthy task, and ends it with a signal.
func (s *site) watched(t *testing.T) {
	t.Helper()
	s.hand("02-02-again")
	s.write(".trellis/tasks/02-02-again/task.json", `{"status": "ready", "branch": "feature/again"}`)
	var out bytes.Buffer
	cmd := s.within("watch")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	for end := time.Now().Add(hang); !s.delivered(t, "02-02-again"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			cmd.Process.Kill()
			t.Fatalf("the watcher does not deliver: %v\n%.3000s", <-gone, out.String())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
		if code := cmd.ProcessState.ExitCode(); code != 143 && code != 0 {
			t.Errorf("the watcher ends with %d\n%.3000s", code, out.String())
		}
	case <-time.After(hang):
		cmd.Process.Kill()
		t.Errorf("SIGTERM does not end the watcher\n%.3000s", out.String())
	}
}

// hostileStops are files of a checkout, outside of its tasks, without which a watcher does not continue, as it can't know what
// settings and an agent's script would say, and the kinds that replace them.
var hostileStops = []struct {
	file  string
	kinds []string
}{
	{".trellis/config.yaml", []string{"endless", "outside", "pipe", "sparse", "one-line", "folder", "circle"}},
	{".trellis/worktree.yaml", []string{"endless", "pipe"}},
	{".trellis/rehearsal.yaml", []string{"endless", "pipe", "sparse"}},
	{".trellis/agents/implement.md", []string{"endless", "outside", "pipe", "sparse"}},
	{".trellis/templates/implement.md.tmpl", []string{"endless", "outside", "pipe", "sparse"}},
	{".trellis/templates", []string{"pipe", "outside"}},
	{".trellis/.runtime/watch.lock", []string{"endless", "pipe"}},
	{".trellis/.runtime", []string{"outside", "pipe"}},
}

// hostilePassed are files without which a watcher continues, by kind.
var hostilePassed = map[string][]string{
	"endless": {".trellis/workflow.md", ".trellis/spec/index.md", ".trellis/objectives/road.md", ".trellis/.developer", ".trellis/.runtime/watch.json", ".trellis/.runtime/notify.jsonl"},
	"sparse":  {".trellis/workflow.md", ".trellis/spec/index.md", ".trellis/objectives/road.md", ".trellis/.developer", ".trellis/.runtime/watch.json", ".trellis/.runtime/notify.jsonl"},
	"pipe":    {".trellis/workflow.md", ".trellis/spec/index.md", ".trellis/objectives/road.md", ".trellis/.developer", ".trellis/.runtime/watch.json", ".trellis/.runtime/notify.jsonl"},
	"outside": {".trellis/workflow.md", ".trellis/spec/index.md", ".trellis/objectives", ".trellis/tasks/archive"},
	"folder":  {".trellis/.runtime/watch.json"},
	"pipe 2":  {".trellis/spec", ".trellis/objectives", ".trellis/tasks/archive"},
}

// Edges F4, S4: the same for all other files that a checkout holds for Trellis. Those without which a watcher continues are
// replaced together, those that stop it one by one, with one kind each. With TRELLIS_SOAK all are tried alone, and with each kind.
func TestHostileCheckouts(t *testing.T) {
	all, tried := 0, 0
	for i, c := range hostileStops {
		for n, kind := range c.kinds {
			if all++; soak.Asked() || n == i%len(c.kinds) {
				tried++
				t.Run(c.file+" "+kind, func(t *testing.T) { hostileCheckout(t, kind, false, c.file) })
			}
		}
	}
	t.Logf("%d of %d that stop a watcher", tried, all)
	for name, files := range hostilePassed {
		kind, _, _ := strings.Cut(name, " ")
		t.Run("passed "+name, func(t *testing.T) { hostileCheckout(t, kind, true, files...) })
		for _, file := range files {
			if soak.Asked() {
				t.Run(file+" "+kind, func(t *testing.T) { hostileCheckout(t, kind, true, file) })
			}
		}
	}
}

// hostileCheckout replaces files by something hostile, and checks that commands end, and whether a watcher continues.
func hostileCheckout(t *testing.T, kind string, goesOn bool, files ...string) {
	t.Parallel()
	s := played(t, atOnce)
	for _, file := range files {
		s.put(file, kind)
	}
	s.bounded(t, "validate", "--all")
	s.bounded(t, "list")
	s.bounded(t, "doctor")
	code, said := s.bounded(t, "watch", "--once")
	if got := s.delivered(t, "02-01-bye"); got != goesOn {
		t.Errorf("watch --once: exit %d, delivered %v, want %v: %.2000s", code, got, goesOn, said)
	}
	if !goesOn && !strings.Contains(said, filepath.Base(files[0])) {
		t.Errorf("watch --once does not name the file: %.2000s", said)
	}
}
