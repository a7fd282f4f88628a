package git_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
)

// forge makes an index say that a file looks as it does now, whatever is in it.
func (b *box) forge(dir, name string) {
	b.t.Helper()
	index := filepath.Join(b.gitIn(dir, "rev-parse", "--absolute-git-dir"), "index")
	data, err := os.ReadFile(index)
	at := bytes.Index(data, []byte(name+"\x00")) - 62
	var st syscall.Stat_t
	if err != nil || at < 0 || syscall.Lstat(filepath.Join(dir, name), &st) != nil {
		b.t.Fatalf("forging %s: %v, at %d", index, err, at)
	}
	info := must(os.Lstat(filepath.Join(dir, name)))(b.t)
	for i, v := range []int64{int64(st.Ctim.Sec), int64(st.Ctim.Nsec), info.ModTime().Unix(), int64(info.ModTime().Nanosecond()), int64(st.Dev), int64(st.Ino), -1, int64(st.Uid), int64(st.Gid), st.Size} {
		if v >= 0 {
			binary.BigEndian.PutUint32(data[at+4*i:], uint32(v))
		}
	}
	sum := sha1.Sum(data[:len(data)-sha1.Size])
	b.write(index, string(data[:len(data)-sha1.Size])+string(sum[:]))
}

// run is a context as the activities of a run have it.
func (b *box) run(dir string) context.Context {
	b.t.Helper()
	return git.Only(b.t.Context(), must(b.Repo.Made(dir))(b.t))
}

// Edge S1: what the index says of files is not believed, whether snapshots, status or commits go by it, and no other setting makes
// git believe it.
func TestForgedIndex(t *testing.T) {
	for _, setting := range []string{"index.version=2", "index.version=4", "core.trustctime=false", "core.checkStat=minimal", "core.ignoreStat=true"} {
		b := newBox(t)
		b.write("test.sh", "exit 1\n")
		b.git("add", "-A")
		b.git("commit", "-qm", "test")
		key, value, _ := strings.Cut(setting, "=")
		b.git("config", key, value)
		dir := b.add("task/a")
		b.write(filepath.Join(dir, "test.sh"), "exit 0\n")
		past := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "test.sh"), past, past); err != nil {
			t.Fatal(err)
		}
		if setting == "index.version=4" {
			b.gitIn(dir, "update-index", "--assume-unchanged", "test.sh")
		} else {
			b.forge(dir, "test.sh")
		}
		if out, err := b.try(dir, "status", "--porcelain"); err != nil || out != "" {
			t.Fatalf("%s: git sees through it: %q, %v", setting, out, err)
		}
		if tree := must(b.Repo.TreeOf(t.Context(), dir))(t); tree == b.gitIn(dir, "rev-parse", "HEAD^{tree}") {
			t.Errorf("%s: the tree of the files is the one of HEAD", setting)
		}
		ctx := b.run(dir)
		if list := must(b.Repo.Status(ctx, dir))(t); len(list) != 1 || list[0].Path != "test.sh" {
			t.Errorf("%s: got status %v, want test.sh", setting, list)
		}
		must(b.Repo.Commit(ctx, dir, git.CommitOptions{Message: "m"}))(t)
		if got := b.gitIn(dir, "show", "HEAD:test.sh"); got != "exit 0" {
			t.Errorf("%s: got %q in the commit, want what is in the file", setting, got)
		}
	}
}

// A file that Trellis has hashed is not read again until its last change is another one, which nobody can set back.
func TestKnownFilesThatChange(t *testing.T) {
	b := newBox(t)
	b.write("test.sh", "exit 1\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "test")
	dir := b.add("task/a")
	file := filepath.Join(dir, "test.sh")
	st := must(os.Lstat(file))(t)
	for time.Since(st.ModTime()) < 1200*time.Millisecond { // git tells changes within a second apart by reading
		time.Sleep(10 * time.Millisecond)
	}
	want := must(b.Repo.TreeOf(t.Context(), dir))(t)
	b.write(file, "exit 0\n")
	if err := os.Chtimes(file, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	b.forge(dir, "test.sh")
	if got := must(b.Repo.TreeOf(t.Context(), dir))(t); got == want {
		t.Error("the change was not seen")
	}
}

// The index of a run may name trees that it does not have: they are not believed either.
func TestForgedTreesOfAnIndex(t *testing.T) {
	b := newBox(t)
	b.write("d/test.sh", "exit 1\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "test")
	dir := b.add("task/a")
	index := filepath.Join(b.gitIn(dir, "rev-parse", "--absolute-git-dir"), "index")
	b.gitIn(dir, "read-tree", "HEAD") // writes down the trees
	b.gitIn(dir, "update-index", "--refresh")
	data := must(os.ReadFile(index))(t)
	was := must(hex.DecodeString(b.gitIn(dir, "rev-parse", "HEAD:d")))(t)
	other := must(hex.DecodeString(b.gitIn(dir, "rev-parse", "HEAD^^{tree}")))(t)
	at := bytes.LastIndex(data, was)
	if at < 0 {
		t.Fatal("the index names no tree of d")
	}
	copy(data[at:], other)
	sum := sha1.Sum(data[:len(data)-sha1.Size])
	b.write(index, string(data[:len(data)-sha1.Size])+string(sum[:]))
	b.write(filepath.Join(dir, "new"), "x\n")
	must(b.Repo.Commit(b.run(dir), dir, git.CommitOptions{Message: "m"}))(t)
	if got := b.gitIn(dir, "show", "HEAD:d/test.sh"); got != "exit 1" {
		t.Errorf("got %q in the commit", got)
	}
}

// What was added in the sandbox is in objects of its own, which nobody reads: the files of the worktree count.
func TestAddedInTheSandbox(t *testing.T) {
	b := newBox(t)
	dir := b.add("task/a")
	store := must(b.Repo.Store(dir))(t)
	add := func(text string) {
		t.Helper()
		b.write(filepath.Join(dir, "staged"), "staged\n")
		b.write(filepath.Join(dir, "a.txt"), "staged\n")
		own := *b
		own.Env = append(own.Env, "GIT_OBJECT_DIRECTORY="+store.Mounts[0].From, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+store.Mounts[0].To)
		own.gitIn(dir, "add", "-A")
		b.write(filepath.Join(dir, "a.txt"), text+"\n")
		if err := os.Remove(filepath.Join(dir, "staged")); err != nil {
			t.Fatal(err)
		}
		b.write(filepath.Join(dir, "other"), "other\n")
	}
	add("later")
	if list := must(b.Repo.Status(t.Context(), dir))(t); len(list) != 3 {
		t.Errorf("got status %v of who looks, want 3 paths", list)
	}
	s := must(b.Repo.SnapshotIn(t.Context(), filepath.Join(b.Home, "objects"), dir))(t)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	must(b.Repo.Backup(t.Context(), dir, "refs/trellis/backup/a", "m"))(t)
	must(b.Repo.Commit(b.run(dir), dir, git.CommitOptions{Message: "m"}))(t)
	if got := b.gitIn(dir, "ls-tree", "-r", "--name-only", "HEAD"); got != "a.txt\nother" {
		t.Errorf("got %q in the commit", got)
	}
	if got := b.gitIn(dir, "show", "HEAD:a.txt"); got != "later" {
		t.Errorf("got %q in the commit", got)
	}
	b.git("fsck", "--strict")
	if left := must(filepath.Glob(filepath.Join(store.Mounts[0].From, "??")))(t); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	if list := must(b.Repo.Status(b.run(dir), dir))(t); len(list) != 0 {
		t.Errorf("got status %v after the commit", list)
	}
	add("last")
	if err := b.Repo.EndRun(b.run(dir), must(b.Repo.Made(dir))(t)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(store.Mounts[0].From); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want the objects of the run removed", err)
	}
	b.gitIn(dir, "commit", "-qm", "by a person")
	b.git("fsck", "--strict")
	if got := b.gitIn(dir, "show", "HEAD:a.txt"); got != "last" {
		t.Errorf("got %q in a person's commit", got)
	}
}

// Who adds in the sandbox while the index is made anew loses nothing that the index then names.
func TestAddedWhileTheIndexIsRenewed(t *testing.T) {
	b := newBox(t)
	dir := b.add("task/a")
	store := must(b.Repo.Store(dir))(t)
	own := *b
	own.Env = append(own.Env, "GIT_OBJECT_DIRECTORY="+store.Mounts[0].From, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+store.Mounts[0].To)
	stop := make(chan bool)
	var adding sync.WaitGroup
	adding.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			for j := range 40 {
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", j)), fmt.Append(nil, i, j), 0o644)
			}
			_, _ = own.try(dir, "add", "-A") // the index may be locked
		}
	})
	defer adding.Wait()
	defer close(stop)
	ctx := b.run(dir)
	for range 25 {
		must(b.Repo.Status(ctx, dir))(t)
		for line := range strings.Lines(own.gitIn(dir, "ls-files", "--stage")) {
			name := strings.Fields(line)[1]
			_, inOwn := os.Stat(filepath.Join(store.Mounts[0].From, name[:2], name[2:]))
			_, inAll := os.Stat(filepath.Join(store.Mounts[0].To, name[:2], name[2:]))
			if inOwn != nil && inAll != nil {
				t.Fatalf("the index names %s, which is nowhere", name)
			}
		}
	}
}
