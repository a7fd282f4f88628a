package durable_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// hostile returns a folder with all that others may put in place of a file, such as links and a pipe. The file out is beside it.
func hostile(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "dir")
	at := func(name string) string { return filepath.Join(dir, name) }
	makes := []error{
		os.MkdirAll(at("sub/.git"), 0o755), os.WriteFile(at("sub/.git/config"), []byte("four"), 0o644), os.WriteFile(at("a"), []byte("four"), 0o644),
		os.WriteFile(filepath.Join(root, "out"), []byte("out"), 0o644), os.Symlink("..", at("up")), os.Symlink("sub", at("below")),
		os.Symlink("a", at("near")), os.Symlink("../out", at("far")), os.Symlink("/dev/zero", at("zero")), os.Symlink(at("a"), at("absolute")),
		os.Symlink("circle", at("circle")), os.Symlink("nowhere", at("dangling")), os.Symlink("below/.git/config", at("git")),
		syscall.Mkfifo(at("pipe"), 0o644), os.WriteFile(at("sparse"), nil, 0o644), os.Truncate(at("sparse"), 10<<30),
	}
	if err := errors.Join(makes...); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // the path of a socket must be short
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return dir
}

// Edges F4, S4: whatever a program puts in place of a file neither blocks its reader, nor fills memory, nor leads out of
// the folder; the error names the file and what to do.
func TestReadBelow(t *testing.T) {
	dir := hostile(t)
	for name, want := range map[string]error{
		"a": nil, "near": nil, "pipe": durable.ErrIrregular, "socket": durable.ErrIrregular, ".": syscall.EISDIR, "sub": syscall.EISDIR,
		"sparse": durable.ErrTooLarge, "none": fs.ErrNotExist, "dangling": fs.ErrNotExist, "circle": syscall.ELOOP, "a/b": syscall.ENOTDIR,
		"far": durable.ErrOutside, "up/out": durable.ErrOutside, "zero": durable.ErrOutside, "absolute": durable.ErrOutside,
		"../out": durable.ErrOutside, "git": durable.ErrOutside, "below/.git/config": durable.ErrOutside,
	} {
		got, err := durable.ReadBelow(dir, name, 4)
		if !errors.Is(err, want) || err == nil && string(got) != "four" {
			t.Errorf("%s: got %q, %v, want %v", name, got, err, want)
		}
		var why *durable.FileError
		if told := errors.As(err, &why); want != nil && want != fs.ErrNotExist && (!told || why.Reason() == "" || why.Mend() == "" || why.Path != filepath.Join(dir, name)) {
			t.Errorf("%s: %#v does not say what is wrong and what to do", name, err)
		}
	}
	if _, err := durable.ReadBelow(dir, "a", 3); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("a file of 4 bytes where 3 are the most: got %v", err)
	}
	if _, err := durable.ReadBelow("pipe", "a", 4); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a pipe: got %v", err)
	}
}

// Mend names the file or folder that denies access and, depending on its owner, the command that permits it.
func TestMendRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".trellis")
	at := func(name string) string { return filepath.Join(dir, name) }
	makes := []error{
		os.MkdirAll(at("shut"), 0o755), os.Chmod(at("shut"), 0o555), os.Mkdir(at("its own"), 0o755), os.WriteFile(at("secret"), nil, 0o200),
	}
	if err := errors.Join(makes...); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		at("secret"): "make it yours: chmod u+rwX " + at("secret"), at("shut/new"): "make it yours: chmod u+rwX " + at("shut"),
	}
	if os.Geteuid() == 0 && os.Lchown(at("its own"), 4000, 4000) == nil {
		want[at("its own/new")] = "make it yours: sudo chown -R 0 '" + at("its own") + "'"
	} else {
		want["/nothing"] = "it is not yours: ls -ld / says who can let you in"
	}
	if got := (&durable.FileError{Path: at("secret"), Err: syscall.EROFS}).Mend(); !strings.Contains(got, "read-only") {
		t.Errorf("a disk that is read-only: %q", got)
	}
	for path, want := range want {
		if got := (&durable.FileError{Path: path, Err: syscall.EACCES}).Mend(); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// A file of exactly the maximum size is read; one that turns out larger while it is read, as files of /proc do, is refused.
func TestReadBelowGrowing(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{0, 1, 511, 512, 4096, 100_000} {
		want := bytes.Repeat([]byte("x"), n)
		if err := os.WriteFile(filepath.Join(dir, "a"), want, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := durable.ReadBelow(dir, "a", int64(n)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc here, whose files say that they are empty")
	}
	if got, err := durable.ReadBelow("/proc/self", "status", 1<<20); err != nil || !strings.HasPrefix(string(got), "Name:") {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := durable.ReadBelow("/proc/self", "status", 100); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, durable.ErrTooLarge)
	}
}

func TestReadDirBelow(t *testing.T) {
	dir := hostile(t)
	list, err := durable.ReadDirBelow(dir, ".")
	if err != nil || len(list) < 10 || list[0].Name() != "a" {
		t.Errorf("got %v, %v", list, err)
	}
	for name, want := range map[string]error{"pipe": syscall.ENOTDIR, "a": syscall.ENOTDIR, "up": durable.ErrOutside, "zero": durable.ErrOutside, "none": fs.ErrNotExist} {
		if _, err := durable.ReadDirBelow(dir, name); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}

// Edges S4, S10: whatever is in place of a lock, a log or their folder neither redirects a write nor blocks it.
func TestOwnFilesFollowNothing(t *testing.T) {
	dir := hostile(t)
	before, err := os.ReadFile("../out")
	if err != nil {
		t.Fatal(err)
	}
	var disk *durable.Disk
	for name, want := range map[string]error{
		"pipe": durable.ErrIrregular, "socket": durable.ErrIrregular, "sub": syscall.EISDIR, "far": durable.ErrLink, "near": durable.ErrLink,
		"zero": durable.ErrLink, "circle": durable.ErrLink, "dangling": durable.ErrLink, "up/lock": durable.ErrLink, "below/lock": durable.ErrLink,
	} {
		path := filepath.Join(dir, name)
		_, lock := durable.TryLock(path, durable.Holder{PID: 1})
		line := disk.Append(path, []byte("{}"), 0o600)
		_, holder := durable.ReadHolder(path)
		if !errors.Is(lock, want) || !errors.Is(line, want) || holder == nil {
			t.Errorf("%s: locked %v, appended %v, read %v, want %v", name, lock, line, holder, want)
		}
		if durable.Held(path) {
			t.Errorf("%s: is held", name)
		}
	}
	if after, _ := os.ReadFile("../out"); !bytes.Equal(before, after) {
		t.Errorf("a file elsewhere says %q", after)
	}
	if left, _ := filepath.Glob("../lock"); left != nil {
		t.Errorf("written through a link: %v", left)
	}
}

// A lock file of 10 GB, and a log of that size without a newline, are not read as a whole.
func TestOwnFilesOfAnySize(t *testing.T) {
	path := filepath.Join(hostile(t), "sparse")
	var disk *durable.Disk
	if err := disk.Append(path, []byte("{}"), 0o600); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("appended: %v", err)
	}
	if _, err := durable.ReadHolder(path); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("read the holder: %v", err)
	}
	l, err := durable.TryLock(path, durable.Holder{PID: 7, Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	if h, err := durable.ReadHolder(path); err != nil || h.PID != 7 {
		t.Errorf("got %+v, %v", h, err)
	}
}

// A pipe that has the name of the temporary file neither blocks a write nor makes it fail.
func TestWriteBesidePipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, durable.TempPrefix+"a"), 0o600); err != nil {
		t.Fatal(err)
	}
	var disk *durable.Disk
	if err := disk.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
}

func TestBelow(t *testing.T) {
	dir := hostile(t)
	if err := os.WriteFile(filepath.Join(dir, "sub", "b"), []byte("b"), 0o644); err != nil {
		t.Fatal(err)
	}
	files := durable.Below(dir, 4)
	if got, err := fs.ReadFile(files, "sub/b"); err != nil || string(got) != "b" {
		t.Errorf("got %q, %v", got, err)
	}
	if list, err := fs.ReadDir(files, "sub"); err != nil || len(list) != 2 {
		t.Errorf("got %v, %v", list, err)
	}
	for name, want := range map[string]error{"pipe": durable.ErrIrregular, "zero": durable.ErrOutside, "up": durable.ErrOutside, "sparse": durable.ErrTooLarge, "../out": fs.ErrInvalid} {
		if f, err := files.Open(name); f != nil || !errors.Is(err, want) {
			t.Errorf("%s: got %v, %v, want %v", name, f, err, want)
		}
	}
}

// WriteBelow does not block on a pipe that nobody reads, and follows no link out of the folder.
func TestWriteBelow(t *testing.T) {
	dir := hostile(t)
	for name, want := range map[string]error{"a": nil, "new/deep": nil, "pipe": durable.ErrIrregular, "sub": syscall.EISDIR, "zero": durable.ErrOutside, "far": durable.ErrOutside, "up/x": durable.ErrOutside} {
		err := durable.WriteBelow(dir, name, []byte("now"), 0o644)
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
		if got, _ := durable.ReadBelow(dir, name, 4); want == nil && string(got) != "now" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got, _ := os.ReadFile("../out"); string(got) != "out" {
		t.Errorf("written through a link: %q", got)
	}
}
