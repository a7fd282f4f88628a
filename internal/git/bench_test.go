package git_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// filled returns a repository with n files besides a.txt.
func filled(b *testing.B, n int) *gittest.Box {
	x := gittest.New(b)
	for i := range n {
		x.Write(fmt.Sprintf("d%d/f%d.txt", i/50, i), fmt.Sprintf("file %d\n", i))
	}
	x.Git("add", "-A")
	x.Git("commit", "-qm", "files")
	return x
}

func eachSize(b *testing.B, bench func(b *testing.B, x *gittest.Box)) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n, "files"), func(b *testing.B) { bench(b, filled(b, n)) })
	}
}

// BenchmarkReads measures what a claim reads, which has to be negligible compared to one git process.
func BenchmarkReads(b *testing.B) {
	x := gittest.New(b)
	for b.Loop() {
		r := gittest.Must(git.Open(x.Dir))(b)
		gittest.Must(r.Refs().CurrentBranch(b.Context(), x.Dir))(b)
		gittest.Must(r.Refs().Resolve(b.Context(), "main"))(b)
		gittest.Must(r.Refs().Branch(b.Context(), "feature/x"))(b)
	}
}

func BenchmarkOneGitProcess(b *testing.B) {
	x := gittest.New(b)
	for b.Loop() {
		gittest.Must(x.Repo.Refs().TreeAt(b.Context(), "main"))(b)
	}
}

func BenchmarkAddWorktree(b *testing.B) {
	eachSize(b, func(b *testing.B, x *gittest.Box) {
		base, n := x.Git("rev-parse", "main"), 0
		for b.Loop() {
			n++
			name := fmt.Sprint("feature/", n)
			if err := x.Repo.Worktrees().Add(b.Context(), git.NewWorktree{Path: x.Tree(name), Branch: name, Base: base}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkBareWorktreeAdd measures git alone, for comparison with BenchmarkAddWorktree.
func BenchmarkBareWorktreeAdd(b *testing.B) {
	eachSize(b, func(b *testing.B, x *gittest.Box) {
		base, n := x.Git("rev-parse", "main"), 0
		for b.Loop() {
			n++
			name := fmt.Sprint("feature/", n)
			x.Git("worktree", "add", "-q", "--no-track", "-b", name, x.Tree(name), base)
		}
	})
}

func BenchmarkCommit(b *testing.B) {
	eachSize(b, func(b *testing.B, x *gittest.Box) {
		wt, n := x.Add("feature/x"), 0
		for b.Loop() {
			n++
			x.Write(filepath.Join(wt, "new.txt"), fmt.Sprint(n))
			gittest.Must(x.Repo.Committer().Commit(b.Context(), wt, git.CommitOptions{Message: "m", Exclude: []string{".trellis/tasks"}, Branch: "feature/x"}))(b)
		}
	})
}

func BenchmarkBareCommit(b *testing.B) {
	eachSize(b, func(b *testing.B, x *gittest.Box) {
		wt, n := x.Add("feature/x"), 0
		for b.Loop() {
			n++
			x.Write(filepath.Join(wt, "new.txt"), fmt.Sprint(n))
			x.GitIn(wt, "add", "-A")
			x.GitIn(wt, "commit", "-qm", "m")
		}
	})
}

func BenchmarkTreeOf(b *testing.B) {
	eachSize(b, func(b *testing.B, x *gittest.Box) {
		wt := x.Add("feature/x")
		x.Write(filepath.Join(wt, "new.txt"), "new")
		for b.Loop() {
			gittest.Must(snapshot.New(x.Repo).TreeOf(b.Context(), wt))(b)
		}
	})
}

func BenchmarkIdentity(b *testing.B) {
	x := gittest.New(b)
	for b.Loop() {
		gittest.Must(x.Repo.Author().Identity(b.Context()))(b)
	}
}

// BenchmarkObjects measures the check that a run makes before it judges and before it commits, with 20,000 loose objects.
func BenchmarkObjects(b *testing.B) {
	x := manyFiles(b, 20_000, false)
	objects := gittest.Must(x.Repo.Trees().Objects(time.Time{}, nil))(b)
	for b.Loop() {
		if notes, err := objects.Check(b.Context()); err != nil || len(notes) > 0 {
			b.Fatal(notes, err)
		}
	}
}

// BenchmarkObjectsThatAppear measures the same check when the agent has written a hundred more objects.
func BenchmarkObjectsThatAppear(b *testing.B) {
	x := manyFiles(b, 20_000, false)
	before := time.Now()
	for i := range 100 {
		x.Write(fmt.Sprintf("new/%d", i), fmt.Sprintf("new %d\n", i))
	}
	x.Git("add", "-A")
	for b.Loop() {
		if notes, err := gittest.Must(x.Repo.Trees().Objects(before, nil))(b).Check(b.Context()); err != nil || len(notes) > 0 {
			b.Fatal(notes, err)
		}
	}
}

// BenchmarkTreeOfManyFiles measures the tree of 20,000 files, when nothing is known about them, and when they were hashed before.
func BenchmarkTreeOfManyFiles(b *testing.B) {
	x := manyFiles(b, 20_000, true)
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			gittest.Must(snapshot.New(x.Open(x.Dir)).TreeOf(b.Context(), x.Dir))(b)
		}
	})
	b.Run("known", func(b *testing.B) {
		gittest.Must(snapshot.New(x.Repo).TreeOf(b.Context(), x.Dir))(b)
		for b.Loop() {
			gittest.Must(snapshot.New(x.Repo).TreeOf(b.Context(), x.Dir))(b)
		}
	})
}

func BenchmarkCheckoutOfManyFiles(b *testing.B) {
	x := manyFiles(b, 20_000, true)
	head := x.Git("rev-parse", "HEAD")
	for _, c := range []struct {
		name string
		make func(dir string) error
	}{
		{"verified", func(dir string) error { return x.Repo.Worktrees().Checkout(b.Context(), dir, head) }},
		{"by git alone", func(dir string) error {
			_, err := x.Try(x.Dir, "worktree", "add", "-q", "--detach", dir, head)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.make(x.Tree("fresh")); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := x.Repo.Worktrees().Remove(b.Context(), x.Tree("fresh")); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
