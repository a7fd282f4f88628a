package taskdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestUpdateRaisesTheRevisionOnce(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-a", `{"status": "ready", "pipeline": {"revision": 6}}`)
	tests := []struct {
		name   string
		change func(e *taskdir.Edit)
		want   int64
	}{
		{"two fields", func(e *taskdir.Edit) { e.Set("status", "in_progress"); e.Set("pipeline.phase", "claim") }, 7},
		{"the same again", func(e *taskdir.Edit) { e.Set("status", "in_progress"); e.Set("pipeline.phase", "claim") }, 7},
		{"nothing", func(*taskdir.Edit) {}, 7},
		{"for a person", func(e *taskdir.Edit) { e.KeepRevision(); e.Set("scope", "api") }, 7},
		{"set by the caller", func(e *taskdir.Edit) { e.Set("pipeline.revision", 40); e.Set("pipeline.phase", "check") }, 40},
		{"one field", func(e *taskdir.Edit) { e.Set("pipeline.phase", "accept") }, 41},
	}
	for _, test := range tests {
		task, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { test.change(e); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if got := task.Pipeline.Revision; got != test.want {
			t.Errorf("%s: got revision %d, want %d", test.name, got, test.want)
		}
	}
	want := `{"status": "in_progress", "scope": "api", "pipeline": {"revision": 41, "phase": "accept"}}`
	if got := read(t, filepath.Join(dir, taskdir.TaskJSON)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUpdateThatChangesNothingWritesNothing(t *testing.T) {
	s := newStore(t)
	dir := create(t, s, taskdir.New{Name: "a"}).Dir
	path := filepath.Join(dir, taskdir.TaskJSON)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	task, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("priority", "P2"); return nil })
	if err != nil || task.Pipeline.Revision != 0 {
		t.Errorf("got %v and revision %d, want no error and 0", err, task.Pipeline.Revision)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced (%v)", err)
	}
}

func TestUpdateKeepsWhatItCannotRead(t *testing.T) {
	s := newStore(t)
	for name, text := range map[string]string{
		"broken": "{\n  \"status\": ready\n}\n", "empty": "", "list": "[]", "double": `{"status": "ready", "status": "planning"}`,
	} {
		dir := byHand(t, s, "02-01-"+name, text)
		called := false
		_, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { called = true; e.Set("status", "ready"); return nil })
		var p *trellis.Problem
		if !errors.As(err, &p) || p.Line == 0 || called {
			t.Errorf("%s: got %v (change called: %v), want a problem with its line", name, err, called)
		}
		if want := ".trellis/tasks/02-01-" + name + "/task.json"; p != nil && p.File != want {
			t.Errorf("%s: got file %s, want %s", name, p.File, want)
		}
		if got := read(t, filepath.Join(dir, taskdir.TaskJSON)); got != text {
			t.Errorf("%s: got %q, want %q", name, got, text)
		}
	}
}

func TestUpdateErrors(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-a", `{"status": "completed"}`)
	refused := errors.New("refused")
	_, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("notes", "x"); return refused })
	if err != refused {
		t.Errorf("got %v, want the error of the change itself", err)
	}
	var move *trellis.MoveError
	_, err = s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.Set("status", "ready")
		e.Set("notes", "x")
		return nil
	})
	if !errors.As(err, &move) || !strings.Contains(err.Error(), "02-01-a") {
		t.Errorf("got %v, want a *trellis.MoveError with the task's name", err)
	}
	if got := read(t, filepath.Join(dir, taskdir.TaskJSON)); got != `{"status": "completed"}` {
		t.Errorf("a refused update wrote %s", got)
	}
	gone := filepath.Join(s.Tasks(), "02-01-gone")
	if _, err := s.Update(gone, func(*taskdir.Task, *taskdir.Edit) error { return nil }); !errors.Is(err, taskdir.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the update of a task that is gone made its directory (%v)", err)
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	s := newStore(t)
	secret := filepath.Join(t.TempDir(), "elsewhere.json")
	if err := os.WriteFile(secret, []byte(`{"status": "ready"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	make := map[string]func(path string) error{
		"is a symbolic link":        func(path string) error { return os.Symlink(secret, path) },
		"is not a file":             func(path string) error { return os.Mkdir(path, 0o755) },
		"is not a file ":            func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"is larger than the 8 MB":   func(path string) error { return os.WriteFile(path, slices.Repeat([]byte(" "), 9<<20), 0o644) },
		"there is no task.json":     func(string) error { return nil },
		"there is no such director": func(path string) error { return os.Remove(filepath.Dir(path)) },
	}
	if os.Geteuid() != 0 { // root can read every file
		make["can't be read: permission denied"] = func(path string) error { return os.WriteFile(path, []byte(`{"status": "ready"}`), 0) }
	}
	for want, make := range make {
		dir := filepath.Join(s.Tasks(), "02-01-x")
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755), make(filepath.Join(dir, taskdir.TaskJSON))); err != nil {
			t.Fatal(err)
		}
		_, err := s.Load(dir)
		var p *trellis.Problem
		if !errors.As(err, &p) || !strings.Contains(p.Message, strings.TrimSpace(want)) || p.Hint == "" {
			t.Errorf("got %v, want %q with a hint", err, want)
		}
		if missing := strings.HasPrefix(want, "there"); errors.Is(err, taskdir.ErrNotFound) != missing {
			t.Errorf("%s: got ErrNotFound %v, want %v", want, !missing, missing)
		}
		if _, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("notes", "x"); return nil }); err == nil {
			t.Errorf("%s: Update got no error", want)
		}
	}
	if got := read(t, secret); got != `{"status": "ready"}` {
		t.Errorf("the file behind the link became %s", got)
	}
}

// If git removes a task (another branch, a stash), the ignored run/ stays; a new task.json would keep git from restoring the task.
func TestLoadAfterGitTookTheTask(t *testing.T) {
	s := newStore(t)
	dir := filepath.Join(s.Tasks(), "02-01-x")
	for run, want := range map[string]string{taskdir.Run: "git stash pop", "notes": "write one"} {
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, run), 0o755)); err != nil {
			t.Fatal(err)
		}
		_, err := s.Load(dir)
		var p *trellis.Problem
		if !errors.As(err, &p) || !strings.Contains(p.Hint, want) {
			t.Errorf("with %s: got %+v, want the hint %q", run, p, want)
		}
	}
}

var writers, updates = 8, 50 / soak.Every(3)

// updateMany is one of the writers of TestUpdateByManyProcesses, in a process of its own. It returns the exit code.
func updateMany(dir, writer string) int {
	s := taskdir.Store{Root: filepath.Join(dir, "..", "..", "..")}
	for i := range updates {
		_, err := s.Update(dir, func(task *taskdir.Task, e *taskdir.Edit) error {
			e.Set("children", append(task.Children, fmt.Sprintf("%s-%d", writer, i)))
			e.Set("meta.writer_"+writer, i)
			return nil
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func TestUpdateByManyProcesses(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-a", "{\n  \"unknown\": 1.10,\n  \"status\": \"ready\"\n}\n")
	var all sync.WaitGroup
	for w := range writers {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TASKDIR_TEST_UPDATE="+dir, fmt.Sprintf("TASKDIR_TEST_WRITER=%d", w), "GORACE=atexit_sleep_ms=0")
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %d: %v: %s", w, err, out)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for reading := true; reading; { // a reader never sees a partly written file
		select {
		case <-done:
			reading = false
		default:
			load(t, s, dir)
		}
	}
	task := load(t, s, dir)
	if got, want := task.Pipeline.Revision, int64(writers*updates); got != want {
		t.Errorf("got revision %d, want %d", got, want)
	}
	if got, want := len(slices.Compact(slices.Sorted(slices.Values(task.Children)))), writers*updates; got != want {
		t.Errorf("got %d different children, want %d", got, want)
	}
	text := read(t, filepath.Join(dir, taskdir.TaskJSON))
	for w := range writers {
		if want := fmt.Sprintf("\"writer_%d\": %d", w, updates-1); !strings.Contains(text, want) {
			t.Errorf("got no %s", want)
		}
	}
	if !strings.Contains(text, `"unknown": 1.10,`) {
		t.Errorf("the unknown field was lost: %s", text)
	}
}

// An update that fails at any step leaves the old file or the new one.
func TestUpdateSurvivesFaults(t *testing.T) {
	for fail := 1; ; fail++ {
		s := newStore(t)
		dir := byHand(t, s, "02-01-a", `{"status": "ready"}`)
		broken, step := errors.New("disk on fire"), 0
		s.Disk = &durable.Disk{Fault: func(string, string) error {
			if step++; step == fail {
				return broken
			}
			return nil
		}}
		_, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("status", "in_progress"); return nil })
		task := load(t, s, dir)
		old := task.Status == trellis.Ready && task.Pipeline.Revision == 0
		changed := task.Status == trellis.InProgress && task.Pipeline.Revision == 1
		if !old && !changed || err == nil && !changed {
			t.Errorf("fault at step %d: got %v and %s", fail, err, task.Raw)
		}
		if err == nil {
			if fail < 8 {
				t.Errorf("got %d steps, want at least those of one durable write", fail-1)
			}
			return
		}
		if !errors.Is(err, broken) {
			t.Errorf("fault at step %d: got %v", fail, err)
		}
		if _, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("notes", "mended"); return nil }); err != nil {
			t.Errorf("after a fault at step %d: %v", fail, err)
		}
	}
}

func TestUpdateWaitsForItsLock(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-a", `{}`)
	if _, err := s.RunDir(dir); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(filepath.Join(dir, taskdir.WriteLock), durable.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		_, err := s.Update(dir, func(task *taskdir.Task, e *taskdir.Edit) error { e.Set("notes", task.Notes+"second"); return nil })
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("an update went past the lock: %v", err)
	default:
	}
	write(t, s, "02-01-a/task.json", `{"notes": "first "}`)
	if err := errors.Join(lock.Unlock(), <-result); err != nil {
		t.Fatal(err)
	}
	if got, want := load(t, s, dir).Notes, "first second"; got != want {
		t.Errorf("got %q, want %q: the file is read under the lock", got, want)
	}
}

func TestRunDirIsIgnoredByGit(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-a", `{}`)
	run, err := s.RunDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(run, ".gitignore")); got != "*\n" {
		t.Errorf("got .gitignore %q, want *", got)
	}
	if st, err := os.Stat(run); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("got %v %v, want 0700", st.Mode(), err)
	}
	if again, err := s.RunDir(dir); err != nil || again != run {
		t.Errorf("got %s %v the second time", again, err)
	}
}

func TestAddMissing(t *testing.T) {
	s := newStore(t)
	dir := byHand(t, s, "02-01-user-auth", "{\n  \"status\": \"ready\",\n  \"mine\": 1\n}\n")
	write(t, s, "02-01-user-auth/prd.md", "```\n# not this\n```\n\n# Task: User authentication #\n")
	fields, err := s.AddMissing(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(fields) != 24 || slices.Contains(fields, "status") || !slices.Contains(fields, "pipeline") {
		t.Errorf("got %v, want 23 fields and pipeline", fields)
	}
	want := string(taskdir.Render(taskdir.New{Name: "user-auth", Title: "User authentication", Status: trellis.Ready, Created: s.Now()}))
	want = strings.TrimSuffix(want, "\n}\n") + ",\n  \"mine\": 1\n}\n"
	if got := read(t, filepath.Join(dir, taskdir.TaskJSON)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again, err := s.AddMissing(dir); err != nil || len(again) != 0 {
		t.Errorf("the second time: got %v %v, want nothing", again, err)
	}
	partly := byHand(t, s, "02-01-b", `{"pipeline": {"verify": []}}`)
	fields, err = s.AddMissing(partly)
	if err != nil || !slices.Contains(fields, "pipeline.touches") || slices.Contains(fields, "pipeline.verify") {
		t.Errorf("got %v %v, want those missing below pipeline", fields, err)
	}
	if p := load(t, s, partly).Problems; len(p) > 0 {
		t.Errorf("got problems %v", p)
	}
}
