package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// PushRefs moves all of the refs or none, each only from the commit at which it is expected.
func TestPushRefs(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		bare := remote(b)
		one, two := b.Git("rev-parse", "main"), b.Git("rev-parse", "work")
		b.Hook("pre-push", "exit 1")
		push := func(moves ...git.RefMove) error {
			return b.Repo.Remotes().PushRefs(t.Context(), "origin", 15*time.Minute, moves...)
		}
		at := func() string {
			return strings.Join(strings.Fields(b.GitIn(bare, "for-each-ref", "--format=%(refname) %(objectname)", "refs/x")), " ")
		}
		if err := push(git.RefMove{Ref: "refs/x/a", To: one}, git.RefMove{Ref: "refs/x/b", To: two, Any: true}); err != nil {
			t.Fatal(err)
		}
		both := "refs/x/a " + one + " refs/x/b " + two
		if got := at(); got != both {
			t.Errorf("got %s, want %s", got, both)
		}
		moved := (*git.RefMovedError)(nil)
		for _, was := range []string{"", two} {
			err := push(git.RefMove{Ref: "refs/x/a", To: two, Was: was}, git.RefMove{Ref: "refs/x/b", To: one, Any: true})
			if !errors.As(err, &moved) || moved.Ref != "refs/x/a" || moved.Now != one || at() != both {
				t.Errorf("from %q: %v, and it has %s", was, err, at())
			}
		}
		if err := push(git.RefMove{Ref: "refs/x/a", To: one, Was: one}); err != nil {
			t.Errorf("where it is: %v", err)
		}
		if err := push(git.RefMove{Ref: "refs/x/a", To: two, Was: one}, git.RefMove{Ref: "refs/x/b", Any: true}, git.RefMove{Ref: "refs/x/gone", Any: true}); err != nil {
			t.Fatal(err)
		}
		if got := at(); got != "refs/x/a "+two {
			t.Errorf("got %s", got)
		}
		if err := push(git.RefMove{Ref: "refs/x/b", To: one, Was: two}); !errors.As(err, &moved) || moved.Now != "" {
			t.Errorf("from one that is gone: %v", err)
		}
		if err := os.Rename(bare, bare+".away"); err != nil {
			t.Fatal(err)
		}
		if err := push(git.RefMove{Ref: "refs/x/a", To: one, Was: two}); err == nil || errors.As(err, &moved) {
			t.Errorf("without a remote: %v", err)
		}
	}, gittest.HardFormats...)
}

// FetchRefs fetches only the refs that it is given, and removes those that are gone at the remote.
func TestFetchRefs(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	bare := remote(b)
	one := b.Git("rev-parse", "main")
	b.Git("push", "-q", "origin", "main:refs/x/a", "main:refs/x/b")
	b.GitIn(bare, "update-ref", "refs/heads/new", one)
	fetch := func() string {
		t.Helper()
		if err := b.Repo.Remotes().FetchRefs(t.Context(), "origin", 15*time.Minute, "+refs/x/*:refs/got/*"); err != nil {
			t.Fatal(err)
		}
		return b.Git("for-each-ref", "--format=%(refname)", "refs/got", "refs/remotes")
	}
	if got := fetch(); got != "refs/got/a\nrefs/got/b" {
		t.Errorf("got %s", got)
	}
	b.GitIn(bare, "update-ref", "-d", "refs/x/a")
	if got := fetch(); got != "refs/got/b" || b.Git("rev-parse", "refs/got/b") != one {
		t.Errorf("got %s", got)
	}
}

// FetchRefs brings all objects of the refs even to a partial clone, which would fetch each file separately later.
func TestFetchRefsWhole(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	bare := remote(b)
	b.GitIn(bare, "config", "uploadpack.allowFilter", "true")
	part := filepath.Join(t.TempDir(), "part")
	b.Git("clone", "-q", "--filter=blob:none", "file://"+bare, part)
	b.Git("push", "-q", "origin", "work:refs/x/a")
	repo := gittest.Must(git.Open(part))(t)
	if err := repo.Remotes().FetchRefs(t.Context(), "origin", 15*time.Minute, "+refs/x/*:refs/got/*"); err != nil {
		t.Fatal(err)
	}
	if lacks := b.GitIn(part, "rev-list", "--objects", "--missing=print", "refs/got/a", "^main"); strings.Contains(lacks, "?") {
		t.Errorf("it has not all:\n%s", lacks)
	}
}

// A remote that does not answer within the time limit is an error that says so.
func TestRefsTakeTooLong(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	remote(b)
	b.Git("config", "remote.origin.uploadpack", "sleep 60; git-upload-pack")
	b.Git("config", "remote.origin.receivepack", "sleep 60; git-receive-pack")
	const limit = 100 * time.Millisecond
	if err := b.Repo.Remotes().FetchRefs(t.Context(), "origin", limit, "+refs/x/*:refs/got/*"); err == nil || !strings.Contains(err.Error(), "longer than 100ms") {
		t.Errorf("fetching: %v", err)
	}
	err := b.Repo.Remotes().PushRefs(t.Context(), "origin", limit, git.RefMove{Ref: "refs/x/a", To: b.Git("rev-parse", "main")})
	if err == nil || !strings.Contains(err.Error(), "longer than 100ms") {
		t.Errorf("pushing: %v", err)
	}
}

// Files are committed and read back byte for byte, whatever the project's attributes say.
func TestCommitFiles(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		b.Write(".gitattributes", "* text eol=crlf ident working-tree-encoding=UTF-16 filter=none\n")
		b.Git("config", "core.autocrlf", "true")
		trees := b.Repo.Trees()
		files := []git.TreeFile{
			{Path: "a b/\"q\" \\ \xff\n", Mode: 0o100755, Data: []byte("x\r\ny\n$Id$\x00")},
			{Path: "empty", Mode: 0o100644, Data: []byte{}},
		}
		first, err := trees.CommitFiles(t.Context(), "refs/x/a", "said\n", time.Unix(1700000000, 0), files)
		if err != nil {
			t.Fatal(err)
		}
		files[1].Data = []byte("not empty")
		second, err := trees.CommitFiles(t.Context(), "refs/x/a", "said\n", time.Unix(1700000000, 0), files)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Git("log", "--format=%s %an", "refs/x/a"); got != "said trellis" || b.Git("rev-parse", "refs/x/a") != second || first == second {
			t.Errorf("the log is %q, %s and %s", got, first, second)
		}
		was := filepath.Join(b.Dir, ".git", "objects", git.BlobID(files[1].Data, first)[:2], git.BlobID(files[1].Data, first)[2:])
		long := time.Now().Add(-1000 * time.Hour)
		if err := os.Chtimes(was, long, long); err != nil {
			t.Fatal(err)
		}
		if same, err := trees.CommitFiles(t.Context(), "refs/x/b", "said\n", time.Unix(1700000000, 0), files); err != nil || same != second {
			t.Errorf("once more: %s, %v", same, err)
		}
		if st, err := os.Stat(was); err != nil || time.Since(st.ModTime()) > time.Hour {
			t.Errorf("gc would take a file that was used again: %v, %v", st.ModTime(), err)
		}
		b.Git("repack", "-adq")
		b.Git("prune-packed")
		if packed, err := trees.CommitFiles(t.Context(), "refs/x/a", "said\n", time.Unix(1700000000, 0), files); err != nil || packed != second {
			t.Errorf("once the files lie in a pack: %s, %v", packed, err)
		}
		got, err := trees.Files(t.Context(), second)
		if err == nil {
			err = trees.Fill(t.Context(), got, 20, 40)
		}
		if err != nil || len(got) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		for i, f := range got {
			if f.Path != files[i].Path || f.Mode != files[i].Mode || string(f.Data) != string(files[i].Data) {
				t.Errorf("got %+v, want %+v", f, files[i])
			}
		}
		for _, most := range [][2]int64{{9, 40}, {20, 15}} {
			if err := trees.Fill(t.Context(), got, most[0], most[1]); err == nil {
				t.Errorf("files of 10 and 9 bytes are within %d", most)
			}
		}
		got[0].Blob = strings.Repeat("1", len(got[0].Blob))
		if err := trees.Fill(t.Context(), got, 20, 40); !errors.As(err, new(*git.DamagedError)) {
			t.Errorf("one that is missing: %v", err)
		}
	})
}

// A push that was killed may leave the lock of a Trellis ref in a remote that is a local folder: the next push removes it.
// Locks of other refs stay.
func TestPushPastALockOfTheDead(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	bare := remote(b)
	one := b.Git("rev-parse", "main")
	locks := []string{filepath.Join(bare, "refs/trellis/run/x.lock"), filepath.Join(bare, "refs/heads/x.lock")}
	for _, lock := range locks {
		if err := errors.Join(os.MkdirAll(filepath.Dir(lock), 0o755), os.WriteFile(lock, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Repo.Remotes().PushRefs(t.Context(), "origin", 15*time.Minute, git.RefMove{Ref: "refs/trellis/run/x", To: one}); err != nil {
		t.Error(err)
	}
	if got := b.GitIn(bare, "rev-parse", "refs/trellis/run/x"); got != one {
		t.Errorf("it is at %s", got)
	}
	if _, err := os.Stat(locks[1]); err != nil {
		t.Error(err)
	}
}
