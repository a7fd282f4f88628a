package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const (
	before = "the old content, of some length\n"
	after  = "the new content, which is rather longer than the one before\n"
)

func TestWriteFileFailsAtEveryStep(t *testing.T) {
	for n := 1; ; n++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "task.json")
		write(t, path, before)
		disk, steps := breakingDisk(n)
		err := disk.WriteFile(path, []byte(after), 0o600)
		if got := read(t, path); err == nil && got != after || got != before && got != after {
			t.Fatalf("step %d (%v): got %q, error %v", n, *steps, got, err)
		}
		if got := names(t, dir); got != "task.json" {
			t.Errorf("step %d (%v): files %q", n, *steps, got)
		}
		if err == nil {
			want := "create write write sync rename syncdir"
			if got := strings.Join(*steps, " "); got != want || n != len(*steps)+1 {
				t.Errorf("got steps %q, want %q", got, want)
			}
			return
		}
		if !errors.Is(err, errInjected) || !strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), dir) {
			t.Errorf("step %d: got error %v", n, err)
		}
	}
}

func TestWriteFileOfAKilledProcess(t *testing.T) {
	for n := 1; ; n++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "task.json")
		write(t, path, before)
		err := play(t, "write-and-die", strconv.Itoa(n), path, after).Run()
		if got := read(t, path); got != before && got != after {
			t.Fatalf("killed at step %d: got %q", n, got)
		}
		if err := new(durable.Disk).WriteFile(path, []byte(after), 0o600); err != nil {
			t.Fatalf("writing after a kill at step %d: %v", n, err)
		}
		if got := names(t, dir); got != "task.json" {
			t.Errorf("killed at step %d: the next write left %q", n, got)
		}
		if err == nil {
			if n < 6 {
				t.Errorf("only %d steps", n-1)
			}
			return
		}
	}
}

// An edit by hand while the file is being replaced is not lost, up to the rename.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roadmap.md")
	write(t, path, before)
	if err := new(durable.Disk).Replace(path, []byte(before), []byte(after)); err != nil || read(t, path) != after {
		t.Fatalf("got %q, %v", read(t, path), err)
	}
	for _, at := range []string{"create", "write", "sync", "rename"} {
		write(t, path, before)
		disk := &durable.Disk{Fault: func(step, _ string) error {
			if step == at {
				write(t, path, "by hand")
			}
			return nil
		}}
		if err := disk.Replace(path, []byte(before), []byte(after)); !errors.Is(err, durable.ErrChanged) || read(t, path) != "by hand" {
			t.Errorf("at %s: got %q, %v", at, read(t, path), err)
		}
		if got := names(t, filepath.Dir(path)); got != "roadmap.md" {
			t.Errorf("at %s: files %q", at, got)
		}
	}
}

func TestWriteFilePermission(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var disk *durable.Disk // a nil Disk works
	if err := disk.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := mode(t, path), fs.FileMode(0o600); got != want {
		t.Errorf("new file: got %v, want %v", got, want)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := disk.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := mode(t, path), fs.FileMode(0o640); got != want {
		t.Errorf("existing file: got %v, want %v", got, want)
	}
}

func TestWriteFileReplacesASymlink(t *testing.T) {
	dir := t.TempDir()
	outside, path := filepath.Join(dir, "outside"), filepath.Join(dir, "link")
	write(t, outside, before)
	if err := os.Symlink(outside, path); err != nil {
		t.Fatal(err)
	}
	if err := new(durable.Disk).WriteFile(path, []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(t, outside); got != before {
		t.Errorf("the file that the link led to has %q", got)
	}
	if got := read(t, path); got != after {
		t.Errorf("got %q, want %q", got, after)
	}
}

func TestWriteFileNeedsTheFolder(t *testing.T) {
	err := new(durable.Disk).WriteFile(filepath.Join(t.TempDir(), "no", "f"), nil, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// While several writers replace one file, readers only see content that one of them wrote.
func TestWriteFileByManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	content := func(i int) string { return strings.Repeat(strconv.Itoa(i%10), 40_000+i) }
	write(t, path, content(0))
	var writers, readers sync.WaitGroup
	for i := range 6 {
		writers.Go(func() {
			for j := range 15 {
				if err := new(durable.Disk).WriteFile(path, []byte(content(i*15+j)), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	stop := make(chan struct{})
	readers.Go(func() {
		for {
			data, err := os.ReadFile(path)
			if err != nil || string(data) != content(len(data)-40_000) {
				t.Errorf("read %d bytes of no writer, error %v", len(data), err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	writers.Wait()
	close(stop)
	readers.Wait()
	if got := names(t, dir); got != "f" {
		t.Errorf("left %q", got)
	}
}

func TestRenameNeverReplaces(t *testing.T) {
	disk := new(durable.Disk)
	for _, taken := range []string{"file", "folder"} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		if err := disk.Mkdir(from, 0o700); err != nil {
			t.Fatal(err)
		}
		if taken == "folder" {
			if err := disk.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, to, before)
		}
		if err := disk.Rename(from, to); !errors.Is(err, fs.ErrExist) {
			t.Errorf("onto a %s: got %v, want %v", taken, err, fs.ErrExist)
		}
		if got := names(t, dir); got != "from to" {
			t.Errorf("onto a %s: files %q", taken, got)
		}
	}
}

func TestRenameFailsAtEveryStep(t *testing.T) {
	for n := 1; ; n++ {
		dir := t.TempDir()
		sub := filepath.Join(dir, "sub")
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		from, to := filepath.Join(dir, "a"), filepath.Join(sub, "b")
		write(t, from, before)
		disk, steps := breakingDisk(n)
		err := disk.Rename(from, to)
		_, oldErr := os.Stat(from)
		_, newErr := os.Stat(to)
		if (oldErr == nil) == (newErr == nil) {
			t.Errorf("step %d: at the old name %v, at the new one %v", n, oldErr, newErr)
		}
		if err == nil {
			if got, want := fmt.Sprint(*steps), "[rename syncdir syncdir]"; got != want {
				t.Errorf("got steps %s, want %s", got, want)
			}
			return
		}
		if !errors.Is(err, errInjected) {
			t.Errorf("step %d: got %v", n, err)
		}
	}
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	disk, steps := breakingDisk(0)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := new(durable.Disk).MkdirAll(deep, 0o700); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := disk.MkdirAll(deep, 0o700); err != nil || len(*steps) != 0 {
		t.Errorf("a folder that is there: %v after %v", err, *steps)
	}
	if err := disk.MkdirAll(filepath.Join(dir, "x", "y"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(*steps), "[mkdir syncdir mkdir syncdir]"; got != want {
		t.Errorf("got steps %s, want %s", got, want)
	}
	write(t, filepath.Join(dir, "f"), before)
	if err := disk.MkdirAll(filepath.Join(dir, "f", "g"), 0o700); err == nil {
		t.Error("made a folder below a file")
	}
	if err := disk.Mkdir(deep, 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir of a folder that is there: got %v, want %v", err, fs.ErrExist)
	}
}

func TestSyncDirOfNoFolder(t *testing.T) {
	if err := new(durable.Disk).SyncDir(filepath.Join(t.TempDir(), "no")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Mode().Perm()
}
