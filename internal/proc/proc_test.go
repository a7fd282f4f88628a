package proc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/proc"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		script, signal string
		code           int
	}{
		{"true", "", 0},
		{"exit 3", "", 3},
		{"no-such-program-at-all 2>/dev/null", "", 127},
		{"kill -TERM $$", "SIGTERM", 143},
		{"kill -KILL $$", "SIGKILL", 137},
		{"kill -SEGV $$", "SIGSEGV", 139},
	}
	for _, tt := range tests {
		r, _ := run(t, shell(tt.script))
		if r.Code != tt.code || r.Signal != tt.signal || r.TimedOut || r.Seconds <= 0 {
			t.Errorf("%s: got %+v, want code %d, signal %q", tt.script, r, tt.code, tt.signal)
		}
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("words"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		c    proc.Command
		code int
		is   error
	}{
		{"not in PATH", proc.Command{Argv: []string{"no-such-program"}}, proc.CodeNotFound, exec.ErrNotFound},
		{"not in the PATH of Env", proc.Command{Argv: []string{"sh"}, Env: []string{"PATH=" + dir}}, proc.CodeNotFound, exec.ErrNotFound},
		{"no such file", proc.Command{Argv: []string{filepath.Join(dir, "none")}}, proc.CodeNotFound, fs.ErrNotExist},
		{"not executable", proc.Command{Argv: []string{text}}, proc.CodeNoExec, fs.ErrPermission},
	}
	for _, tt := range tests {
		r, err := proc.Run(t.Context(), tt.c)
		if r.Code != tt.code || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.c.Argv[0]) {
			t.Errorf("%s: got %+v, %v, want code %d, %v", tt.name, r, err, tt.code, tt.is)
		}
	}
	c := shell("true")
	c.Dir = filepath.Join(dir, "none")
	if _, err := proc.Run(t.Context(), c); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), c.Dir) {
		t.Errorf("missing directory: got %v, want an error that names it and is not that of a missing program", err)
	}
	if _, err := proc.Run(t.Context(), proc.Command{}); err == nil {
		t.Error("no name: got no error")
	}
}

func TestProgramIsLookedUp(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho found\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []proc.Command{
		{Argv: []string{"tool"}, Env: []string{"PATH=/nowhere:" + dir}},
		{Argv: []string{"./tool"}, Dir: dir},
	} {
		if _, got := run(t, c); got != "found\n" {
			t.Errorf("%v: got %q", c.Argv, got)
		}
	}
}

func TestLookPath(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{filepath.Join(dir, "tool"): 0o700, filepath.Join(other, "tool"): 0o700, filepath.Join(other, "text"): 0o600} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(other, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	all := []string{"PATH=/nowhere", "PATH=/nowhere:" + dir + ":" + other}
	if got, err := proc.LookPath("tool", all); got != filepath.Join(dir, "tool") || err != nil {
		t.Errorf("got %s, %v, want the first that is there", got, err)
	}
	for name, env := range map[string][]string{"text": all, "folder": all, "none": all, "tool": {"PATH="}, "sh": nil} {
		var told *exec.Error
		if got, err := proc.LookPath(name, env); !errors.As(err, &told) || told.Name != name || !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%s in %v: got %s, %v, want none", name, env, got, err)
		}
	}
}

// Relative folders in PATH are not searched: programs that an agent put there would be run.
func TestRelativePathIsNotSearched(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, path := range []string{"PATH=.", "PATH=:/nowhere"} {
		c := proc.Command{Argv: []string{"tool"}, Env: []string{path}, Dir: dir}
		if _, err := proc.Run(t.Context(), c); !errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%s: got %v, want %v", path, err, exec.ErrNotFound)
		}
	}
}

// A program whose file is still open for writing, for example in a child that another goroutine
// forked while the file was written, is started once the file is closed.
func TestProgramThatIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tool")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("#!/bin/sh\nexit 4\n"); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { f.Close() })
	if r, _ := run(t, proc.Command{Argv: []string{path}}); r.Code != 4 {
		t.Errorf("got %+v, want code 4", r)
	}
}

func TestEnvironmentIsTheGivenOne(t *testing.T) {
	t.Setenv("LEAKED", "yes")
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tests := []struct {
		c    proc.Command
		want []string
	}{
		{proc.Command{}, nil},
		{proc.Command{Env: []string{"A=1", "B=2", "A=3"}}, []string{"B=2", "A=3"}},
		{proc.Command{Env: []string{"PWD=/wrong"}, Dir: dir}, []string{"PWD=" + dir}},
		{proc.Command{Env: []string{"TRELLIS_RUN_MARKER=outer"}, Marker: "m1"}, []string{"TRELLIS_RUN_MARKER=m1", "TRELLIS_CALL_MARKER="}},
	}
	for _, tt := range tests {
		tt.c.Argv = []string{env}
		_, out := run(t, tt.c)
		got := strings.Fields(out)
		if len(got) != len(tt.want) {
			t.Errorf("%+v: got %q, want %q", tt.c, got, tt.want)
			continue
		}
		for i, want := range tt.want {
			if got[i] != want && !(strings.HasSuffix(want, "=") && strings.HasPrefix(got[i], want)) {
				t.Errorf("%+v: got %q, want %q", tt.c, got, tt.want)
			}
		}
	}
}

func TestStdin(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<16)
	c := shell("cat")
	c.Stdin = strings.NewReader(big)
	if _, got := run(t, c); got != big {
		t.Errorf("got %d bytes back, want %d", len(got), len(big))
	}
	if _, got := run(t, shell("cat; echo done")); got != "done\n" {
		t.Errorf("no stdin: got %q", got)
	}
	c = shell("echo done") // does not read stdin
	c.Stdin = strings.NewReader(big)
	if _, got := run(t, c); got != "done\n" {
		t.Errorf("unread stdin: got %q", got)
	}
	c = shell("echo done")
	b := blocked{make(chan struct{})}
	defer close(b.c)
	c.Stdin = b
	if _, got := run(t, c); got != "done\n" {
		t.Errorf("stdin that blocks: got %q", got)
	}
}

func TestStdinFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("words"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := shell("cat")
	c.Stdin = f
	if _, got := run(t, c); got != "words" {
		t.Errorf("got %q", got)
	}
}

func TestBigOutput(t *testing.T) {
	const mb = 10
	_, got := run(t, play("flood", "10"))
	if want := mb<<20 + len("the end"); len(got) != want || !strings.HasSuffix(got, "the end") {
		t.Errorf("got %d bytes, want %d", len(got), want)
	}
	capped := proc.NewCapped(8 << 10)
	c := play("flood", "10")
	c.Stdout = capped
	if _, err := proc.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if s := capped.String(); !capped.Cut() || len(s) > 9<<10 || !strings.HasSuffix(s, "the end") {
		t.Errorf("capped: %d bytes kept, cut %v", len(s), capped.Cut())
	}
}

// slow is a writer that is far behind when the program ends.
type slow struct{ bytes.Buffer }

func (s *slow) Write(p []byte) (int, error) {
	if s.Len() == 0 {
		time.Sleep(2 * time.Second) // longer than Run waits for output and tools left behind
	}
	return s.Buffer.Write(p)
}

// What a program wrote before its end arrives completely, however slow the writer is and whoever still has the pipe open.
func TestSlowWriterLosesNothing(t *testing.T) {
	var out slow
	c := play("tree", "leave")
	c.Argv = []string{"sh", "-c", `"$0" leave; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo last`, os.Args[0]}
	c.Stdout = &out
	if _, err := proc.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "line 1999\nlast\n") {
		t.Errorf("got %d bytes, ending %q", out.Len(), out.String()[max(0, out.Len()-40):])
	}
	killTools(t, out.String())
}

func TestBothOutputs(t *testing.T) {
	var both, out, errs bytes.Buffer
	c := shell("for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done")
	c.Stdout, c.Stderr = &both, &both
	if _, err := proc.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nout 4\nerr 4\nout 5\nerr 5\n"
	if got := both.String(); got != want {
		t.Errorf("one writer: got %q, want %q", got, want)
	}
	c.Stdout, c.Stderr = &out, &errs
	if _, err := proc.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if out.String() != "out 1\nout 2\nout 3\nout 4\nout 5\n" || !strings.HasPrefix(errs.String(), "err 1\nerr 2") {
		t.Errorf("two writers: got %q and %q", out.String(), errs.String())
	}
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestWriterThatFails(t *testing.T) {
	c := play("flood", "10")
	c.Stdout = failing{}
	c.Stderr = io.Discard
	if _, err := proc.Run(t.Context(), c); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

func TestShell(t *testing.T) {
	c := shell("")
	c.Argv = proc.Shell("false | true")
	want := 0
	if _, err := exec.LookPath("bash"); err == nil {
		want = 1
	}
	if r, _ := run(t, c); r.Code != want {
		t.Errorf("false | true: got code %d, want %d", r.Code, want)
	}
}

func TestEnviron(t *testing.T) {
	base := []string{"PATH=/bin", "HOME=/h", "AWS_SECRET=x", "LC_ALL=C", "LC=no", "LANG=a", "LANG=b", "broken"}
	got := proc.Environ(base, []string{"PATH", "LANG", "LC_*"}, "X=1", "PATH=/own")
	if want := "LC_ALL=C LANG=b X=1 PATH=/own"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := proc.Environ(base, nil); got == nil || len(got) != 0 {
		t.Errorf("nothing allowed: got %#v, want an empty list that is not nil", got)
	}
}

func TestOwnSession(t *testing.T) {
	p, err := proc.Start(t.Context(), shell("sleep 3000"))
	if err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(p.PID()); err != nil || sid != p.PID() {
		t.Errorf("got session %d, %v, want %d", sid, err, p.PID())
	}
	p.Stop(nil)
	if r, err := p.Wait(); err != nil || r.Signal != "SIGTERM" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errFull)
	if _, err := proc.Run(ctx, shell("echo never")); err != errFull {
		t.Errorf("got %v, want %v", err, errFull)
	}
}
