package git_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Names of files and authors, which others may choose, are not mistaken for git's own output.
func TestTouchesOfOddNames(t *testing.T) {
	b := gittest.New(t)
	r := b.Open(b.Dir)
	odd := "a\tb\n:100644 \"ü\x01\\"
	b.Write(odd, "one\n")
	b.Git("add", "-A")
	b.Git("-c", "user.name=:1 2 3 4 M\x01x", "commit", "-q", "-m", "odd\n\n:000000")
	first := strings.TrimSpace(b.Git("rev-parse", "HEAD"))
	b.Write(odd, "two\n")
	b.Git("commit", "-qam", "two")
	list, err := r.Provenance().Touches(t.Context(), git.Reach{All: true, Tips: []string{strings.Repeat("1", 40)}}, "", odd)
	if err != nil || len(list) != 2 {
		t.Fatalf("touches are %+v, %v", list, err)
	}
	if got := list[1]; got.Commit != first || got.Path != odd || got.Old != "" || got.New != list[0].Old {
		t.Errorf("the first is %+v", got)
	}
	blobs, err := r.Provenance().BlobsAt(t.Context(), "HEAD", odd, "none")
	if err != nil || len(blobs) != 1 || blobs[odd] != list[0].New || blobs[odd] != git.BlobID([]byte("two\n"), first) {
		t.Errorf("blobs at HEAD are %v, %v", blobs, err)
	}
	text, err := r.Provenance().Blobs(t.Context(), 4, list[0].New, list[0].Old, strings.Repeat("2", 40))
	if err != nil || string(text[list[0].New]) != "two\n" || string(text[list[0].Old]) != "one\n" || len(text) != 2 {
		t.Errorf("blobs are %q, %v", text, err)
	}
	if text, err = r.Provenance().Blobs(t.Context(), 3, list[0].New); err != nil || len(text) != 0 {
		t.Errorf("a blob that is too large is %q, %v", text, err)
	}
}

// A partial clone lacks blobs that are only in its history, and git ends at the first of them: it is left out, and not fetched.
func TestBlobsOfAPartialClone(t *testing.T) {
	b := gittest.New(t)
	b.Git("config", "uploadpack.allowFilter", "true")
	var blobs []string
	for _, text := range []string{"here\n", "of the remote alone\n", "here too\n"} {
		b.Write("file", text)
		b.Git("add", "-A")
		b.Git("commit", "-q", "-m", text)
		blobs = append(blobs, git.BlobID([]byte(text), ""))
	}
	clone := b.Tree("clone")
	b.Git("clone", "-q", "--filter=blob:none", "file://"+b.Dir, clone)
	b.GitIn(clone, "cat-file", "-p", "HEAD~2:file")
	text, err := b.Open(clone).Provenance().Blobs(t.Context(), 100, blobs...)
	if err != nil || len(text) != 2 || string(text[blobs[0]]) != "here\n" || string(text[blobs[2]]) != "here too\n" {
		t.Errorf("blobs are %q, %v", text, err)
	}
	if out, err := b.Try(clone, "rev-list", "--objects", "--all", "--missing=print"); err != nil || !strings.Contains(out, "?"+blobs[1]) {
		t.Errorf("what was not here was fetched: %v\n%s", err, out)
	}
}

// Reflogs of checkouts that Trellis created are left out, since they are not a person's.
func TestLogged(t *testing.T) {
	b := gittest.New(t)
	r := b.Open(b.Dir)
	owned, plain := filepath.Join(t.TempDir(), "owned"), filepath.Join(t.TempDir(), "plain")
	head := strings.TrimSpace(b.Git("rev-parse", "HEAD"))
	if err := r.Worktrees().Add(t.Context(), git.NewWorktree{Path: owned, Branch: "task", Base: head, Owner: "task"}); err != nil {
		t.Fatal(err)
	}
	b.Git("worktree", "add", "-q", "-b", "mine", plain)
	said := map[string]string{}
	for _, at := range []string{owned, plain} {
		b.GitIn(at, "commit", "-q", "--allow-empty", "-m", filepath.Base(at))
		said[at] = strings.TrimSpace(b.GitIn(at, "rev-parse", "HEAD"))
	}
	list, err := r.Provenance().ReflogEntries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, l := range list {
		found[l.Commit] = l.Said
	}
	if found[said[plain]] != "commit: plain" || found[said[owned]] != "" {
		t.Errorf("logged: %v; the person's is %s, the task's %s", found, said[plain], said[owned])
	}
	passed, err := r.Provenance().FormerCommits()
	if err != nil || !strings.Contains(strings.Join(passed, " "), said[owned]) {
		t.Errorf("passed: %v, %v", passed, err)
	}
}
