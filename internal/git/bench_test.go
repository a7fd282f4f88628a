package git_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
)

// filled is a repository with n files in it.
func filled(b *testing.B, n int) *box {
	x := newBox(b)
	for i := range n {
		x.write(fmt.Sprintf("d%d/f%d.txt", i/50, i), fmt.Sprintf("file %d\n", i))
	}
	x.git("add", "-A")
	x.git("commit", "-qm", "files")
	return x
}

func eachSize(b *testing.B, bench func(b *testing.B, x *box)) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n, "files"), func(b *testing.B) { bench(b, filled(b, n)) })
	}
}

// What a claim asks: it has to be nothing beside one git process.
func BenchmarkReads(b *testing.B) {
	x := newBox(b)
	for b.Loop() {
		r := must(git.Open(x.Dir))(b)
		must(r.CurrentBranch(b.Context(), x.Dir))(b)
		must(r.Resolve(b.Context(), "main"))(b)
		must(r.Branch(b.Context(), "feature/x"))(b)
	}
}

func BenchmarkOneGitProcess(b *testing.B) {
	x := newBox(b)
	for b.Loop() {
		must(x.Repo.TreeAt(b.Context(), "main"))(b)
	}
}

func BenchmarkAddWorktree(b *testing.B) {
	eachSize(b, func(b *testing.B, x *box) {
		base, n := x.git("rev-parse", "main"), 0
		for b.Loop() {
			n++
			name := fmt.Sprint("feature/", n)
			if err := x.Repo.AddWorktree(b.Context(), git.NewWorktree{Path: x.tree(name), Branch: name, Base: base}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The same by git alone, to compare.
func BenchmarkBareWorktreeAdd(b *testing.B) {
	eachSize(b, func(b *testing.B, x *box) {
		base, n := x.git("rev-parse", "main"), 0
		for b.Loop() {
			n++
			name := fmt.Sprint("feature/", n)
			x.git("worktree", "add", "-q", "--no-track", "-b", name, x.tree(name), base)
		}
	})
}

func BenchmarkCommit(b *testing.B) {
	eachSize(b, func(b *testing.B, x *box) {
		wt, n := x.add("feature/x"), 0
		for b.Loop() {
			n++
			x.write(filepath.Join(wt, "new.txt"), fmt.Sprint(n))
			must(x.Repo.Commit(b.Context(), wt, git.CommitOptions{Message: "m", Exclude: []string{".trellis/tasks"}, Branch: "feature/x"}))(b)
		}
	})
}

func BenchmarkBareCommit(b *testing.B) {
	eachSize(b, func(b *testing.B, x *box) {
		wt, n := x.add("feature/x"), 0
		for b.Loop() {
			n++
			x.write(filepath.Join(wt, "new.txt"), fmt.Sprint(n))
			x.gitIn(wt, "add", "-A")
			x.gitIn(wt, "commit", "-qm", "m")
		}
	})
}

func BenchmarkTreeOf(b *testing.B) {
	eachSize(b, func(b *testing.B, x *box) {
		wt := x.add("feature/x")
		x.write(filepath.Join(wt, "new.txt"), "new")
		for b.Loop() {
			must(x.Repo.TreeOf(b.Context(), wt))(b)
		}
	})
}

func BenchmarkIdentity(b *testing.B) {
	x := newBox(b)
	for b.Loop() {
		must(x.Repo.Identity(b.Context()))(b)
	}
}

// What a run asks before it judges and before it commits, beside 20,000 loose objects.
func BenchmarkObjects(b *testing.B) {
	x := manyFiles(b, 20_000, false)
	objects := must(x.Repo.Objects(time.Time{}, nil))(b)
	for b.Loop() {
		if notes, err := objects.Check(b.Context()); err != nil || len(notes) > 0 {
			b.Fatal(notes, err)
		}
	}
}

// The same when the agent has written a hundred of them.
func BenchmarkObjectsThatAppear(b *testing.B) {
	x := manyFiles(b, 20_000, false)
	before := time.Now()
	for i := range 100 {
		x.write(fmt.Sprintf("new/%d", i), fmt.Sprintf("new %d\n", i))
	}
	x.git("add", "-A")
	for b.Loop() {
		if notes, err := must(x.Repo.Objects(before, nil))(b).Check(b.Context()); err != nil || len(notes) > 0 {
			b.Fatal(notes, err)
		}
	}
}

// A tree of 20,000 files, with nothing known of them, and when they are.
func BenchmarkTreeOfManyFiles(b *testing.B) {
	x := manyFiles(b, 20_000, true)
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			must(x.open(x.Dir).TreeOf(b.Context(), x.Dir))(b)
		}
	})
	b.Run("known", func(b *testing.B) {
		must(x.Repo.TreeOf(b.Context(), x.Dir))(b)
		for b.Loop() {
			must(x.Repo.TreeOf(b.Context(), x.Dir))(b)
		}
	})
}

func BenchmarkCheckoutOfManyFiles(b *testing.B) {
	x := manyFiles(b, 20_000, true)
	head := x.git("rev-parse", "HEAD")
	for _, c := range []struct {
		name string
		make func(dir string) error
	}{
		{"verified", func(dir string) error { return x.Repo.Checkout(b.Context(), dir, head) }},
		{"by git alone", func(dir string) error {
			_, err := x.try(x.Dir, "worktree", "add", "-q", "--detach", dir, head)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.make(x.tree("fresh")); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := x.Repo.RemoveWorktree(b.Context(), x.tree("fresh")); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
