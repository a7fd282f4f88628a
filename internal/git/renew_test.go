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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// forge writes a file's current stat data into an index, so that git takes its content for unchanged.
func forge(b *gittest.Box, dir, name string) {
	b.T.Helper()
	index := filepath.Join(b.GitIn(dir, "rev-parse", "--absolute-git-dir"), "index")
	data, err := os.ReadFile(index)
	at := bytes.Index(data, []byte(name+"\x00")) - 62
	var st unix.Stat_t
	if err != nil || at < 0 || unix.Lstat(filepath.Join(dir, name), &st) != nil {
		b.T.Fatalf("forging %s: %v, at %d", index, err, at)
	}
	info := gittest.Must(os.Lstat(filepath.Join(dir, name)))(b.T)
	for i, v := range []int64{int64(st.Ctim.Sec), int64(st.Ctim.Nsec), info.ModTime().Unix(), int64(info.ModTime().Nanosecond()), int64(st.Dev), int64(st.Ino), -1, int64(st.Uid), int64(st.Gid), st.Size} {
		if v >= 0 {
			binary.BigEndian.PutUint32(data[at+4*i:], uint32(v))
		}
	}
	sum := sha1.Sum(data[:len(data)-sha1.Size])
	b.Write(index, string(data[:len(data)-sha1.Size])+string(sum[:]))
}

// run returns a context for the worktree at dir, as activities of a run have it.
func run(b *gittest.Box, dir string) context.Context {
	b.T.Helper()
	return git.InWorktree(b.T.Context(), gittest.Must(b.Repo.Worktrees().Identify(dir))(b.T))
}

// Edge S1: snapshots, status and commits do not trust what the index records about files, and no setting of the repository makes
// git trust it.
func TestForgedIndex(t *testing.T) {
	for _, setting := range []string{"index.version=2", "index.version=4", "core.trustctime=false", "core.checkStat=minimal", "core.ignoreStat=true"} {
		b := gittest.New(t)
		b.Write("test.sh", "exit 1\n")
		b.Git("add", "-A")
		b.Git("commit", "-qm", "test")
		key, value, _ := strings.Cut(setting, "=")
		b.Git("config", key, value)
		dir := b.Add("task/a")
		b.Write(filepath.Join(dir, "test.sh"), "exit 0\n")
		past := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(dir, "test.sh"), past, past); err != nil {
			t.Fatal(err)
		}
		if setting == "index.version=4" {
			b.GitIn(dir, "update-index", "--assume-unchanged", "test.sh")
		} else {
			forge(b, dir, "test.sh")
		}
		if out, err := b.Try(dir, "status", "--porcelain"); err != nil || out != "" {
			t.Fatalf("%s: git sees through it: %q, %v", setting, out, err)
		}
		if tree := gittest.Must(snapshot.New(b.Repo).TreeOf(t.Context(), dir))(t); tree == b.GitIn(dir, "rev-parse", "HEAD^{tree}") {
			t.Errorf("%s: the tree of the files is the one of HEAD", setting)
		}
		ctx := run(b, dir)
		if list := gittest.Must(b.Repo.Index().Status(ctx, dir))(t); len(list) != 1 || list[0].Path != "test.sh" {
			t.Errorf("%s: got status %v, want test.sh", setting, list)
		}
		gittest.Must(b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{Message: "m"}))(t)
		if got := b.GitIn(dir, "show", "HEAD:test.sh"); got != "exit 0" {
			t.Errorf("%s: got %q in the commit, want what is in the file", setting, got)
		}
	}
}

// A file that Trellis has hashed is read again as soon as its change time (ctime) differs, which nobody can set back.
func TestKnownFilesThatChange(t *testing.T) {
	b := gittest.New(t)
	b.Write("test.sh", "exit 1\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "test")
	dir := b.Add("task/a")
	file := filepath.Join(dir, "test.sh")
	st := gittest.Must(os.Lstat(file))(t)
	for time.Since(st.ModTime()) < 1200*time.Millisecond { // git detects changes within the same second by reading the file
		time.Sleep(10 * time.Millisecond)
	}
	want := gittest.Must(snapshot.New(b.Repo).TreeOf(t.Context(), dir))(t)
	b.Write(file, "exit 0\n")
	if err := os.Chtimes(file, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	forge(b, dir, "test.sh")
	if got := gittest.Must(snapshot.New(b.Repo).TreeOf(t.Context(), dir))(t); got == want {
		t.Error("the change was not seen")
	}
}

// The trees that the index of a run records may not match its entries: they are not trusted either.
func TestForgedTreesOfAnIndex(t *testing.T) {
	b := gittest.New(t)
	b.Write("d/test.sh", "exit 1\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "test")
	dir := b.Add("task/a")
	index := filepath.Join(b.GitIn(dir, "rev-parse", "--absolute-git-dir"), "index")
	b.GitIn(dir, "read-tree", "HEAD") // records the trees in the index
	b.GitIn(dir, "update-index", "--refresh")
	data := gittest.Must(os.ReadFile(index))(t)
	was := gittest.Must(hex.DecodeString(b.GitIn(dir, "rev-parse", "HEAD:d")))(t)
	other := gittest.Must(hex.DecodeString(b.GitIn(dir, "rev-parse", "HEAD^^{tree}")))(t)
	at := bytes.LastIndex(data, was)
	if at < 0 {
		t.Fatal("the index names no tree of d")
	}
	copy(data[at:], other)
	sum := sha1.Sum(data[:len(data)-sha1.Size])
	b.Write(index, string(data[:len(data)-sha1.Size])+string(sum[:]))
	b.Write(filepath.Join(dir, "new"), "x\n")
	gittest.Must(b.Repo.Committer().Commit(run(b, dir), dir, git.CommitOptions{Message: "m"}))(t)
	if got := b.GitIn(dir, "show", "HEAD:d/test.sh"); got != "exit 1" {
		t.Errorf("got %q in the commit", got)
	}
}

// Files that were staged in the sandbox are in a separate object folder, which is not read: the files of the worktree count.
func TestAddedInTheSandbox(t *testing.T) {
	b := gittest.New(t)
	dir := b.Add("task/a")
	store := gittest.Must(b.Repo.ObjectStores().Store(dir))(t)
	add := func(text string) {
		t.Helper()
		b.Write(filepath.Join(dir, "staged"), "staged\n")
		b.Write(filepath.Join(dir, "a.txt"), "staged\n")
		own := *b
		own.Env = append(own.Env, "GIT_OBJECT_DIRECTORY="+store.Mounts[0].From, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+store.Mounts[0].To)
		own.GitIn(dir, "add", "-A")
		b.Write(filepath.Join(dir, "a.txt"), text+"\n")
		if err := os.Remove(filepath.Join(dir, "staged")); err != nil {
			t.Fatal(err)
		}
		b.Write(filepath.Join(dir, "other"), "other\n")
	}
	add("later")
	if list := gittest.Must(b.Repo.Index().Status(t.Context(), dir))(t); len(list) != 3 {
		t.Errorf("got status %v of who looks, want 3 paths", list)
	}
	s := gittest.Must(snapshot.New(b.Repo).SnapshotIn(t.Context(), filepath.Join(b.Home, "objects"), dir))(t)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	gittest.Must(snapshot.NewBackups(b.Repo).Backup(t.Context(), dir, "refs/trellis/backup/a", "m"))(t)
	gittest.Must(b.Repo.Committer().Commit(run(b, dir), dir, git.CommitOptions{Message: "m"}))(t)
	if got := b.GitIn(dir, "ls-tree", "-r", "--name-only", "HEAD"); got != "a.txt\nother" {
		t.Errorf("got %q in the commit", got)
	}
	if got := b.GitIn(dir, "show", "HEAD:a.txt"); got != "later" {
		t.Errorf("got %q in the commit", got)
	}
	b.Git("fsck", "--strict")
	if left := gittest.Must(filepath.Glob(filepath.Join(store.Mounts[0].From, "??")))(t); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	if list := gittest.Must(b.Repo.Index().Status(run(b, dir), dir))(t); len(list) != 0 {
		t.Errorf("got status %v after the commit", list)
	}
	add("last")
	if err := b.Repo.Index().EndRun(run(b, dir), gittest.Must(b.Repo.Worktrees().Identify(dir))(t)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(store.Mounts[0].From); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want the objects of the run removed", err)
	}
	b.GitIn(dir, "commit", "-qm", "by a person")
	b.Git("fsck", "--strict")
	if got := b.GitIn(dir, "show", "HEAD:a.txt"); got != "last" {
		t.Errorf("got %q in a person's commit", got)
	}
}

// If files are staged in the sandbox while the index is renewed, every object that the index then names exists.
func TestAddedWhileTheIndexIsRenewed(t *testing.T) {
	b := gittest.New(t)
	dir := b.Add("task/a")
	store := gittest.Must(b.Repo.ObjectStores().Store(dir))(t)
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
			_, _ = own.Try(dir, "add", "-A") // the index may be locked
		}
	})
	defer adding.Wait()
	defer close(stop)
	ctx := run(b, dir)
	for range 25 {
		gittest.Must(b.Repo.Index().Status(ctx, dir))(t)
		for line := range strings.Lines(own.GitIn(dir, "ls-files", "--stage")) {
			name := strings.Fields(line)[1]
			_, inOwn := os.Stat(filepath.Join(store.Mounts[0].From, name[:2], name[2:]))
			_, inAll := os.Stat(filepath.Join(store.Mounts[0].To, name[:2], name[2:]))
			if inOwn != nil && inAll != nil {
				t.Fatalf("the index names %s, which is nowhere", name)
			}
		}
	}
}
