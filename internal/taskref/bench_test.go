package taskref_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"

	"github.com/trellis-tasks/trellis/internal/taskref"
)

// BenchmarkSave saves a task whose run has 10 or 1000 files of 4 KB, one of them changed; first is the first save of all files.
func BenchmarkSave(b *testing.B) {
	for _, files := range []int{10, 1000} {
		for _, first := range []bool{false, true} {
			b.Run(fmt.Sprintf("files=%d/first=%v", files, first), func(b *testing.B) { benchmarkSave(b, files, first) })
		}
	}
}

func (m *machine) fill(files int) {
	m.Helper()
	m.create()
	for i := range files {
		m.file(fmt.Sprintf("run/1/step-%d/1/answer.md", i), strings.Repeat(fmt.Sprintf("%d in %s: what an agent wrote\n", i, m.tree()), 60))
	}
}

func benchmarkSave(b *testing.B, files int, first bool) {
	n := newNet(b)
	a := n.machine("a")
	a.fill(files)
	last := ""
	if !first {
		last = a.save("").Commit
	}
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		if first {
			if err := os.RemoveAll(n.bare); err != nil {
				b.Fatal(err)
			}
			n.box.Git("clone", "-q", "--bare", n.box.Dir, n.bare)
			a.Git("update-ref", "-d", "refs/trellis/known/"+task)
			a.Git("prune", "--expire=now")
		}
		a.file("report.md", fmt.Sprint(i))
		b.StartTimer()
		s, err := a.remote.Save(b.Context(), a.taskDir(), last, taskref.SaveAs{Work: true, Claim: a.claim(), Status: trellis.InProgress, Why: "benchmark"})
		if err != nil {
			b.Fatal(err)
		}
		if !first {
			last = s.Commit
		}
	}
}

// BenchmarkBring brings a task to a machine that does not have it.
func BenchmarkBring(b *testing.B) {
	for _, files := range []int{10, 1000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			n := newNet(b)
			a, other := n.machine("a"), n.machine("b")
			a.fill(files)
			a.save("")
			s := other.fetch()
			for b.Loop() {
				b.StopTimer()
				if err := os.RemoveAll(other.taskDir()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				other.bring(s)
			}
		})
	}
}

// BenchmarkBeat renews a claim.
func BenchmarkBeat(b *testing.B) {
	n := newNet(b)
	a := n.machine("a")
	a.fill(10)
	s := a.save("")
	for b.Loop() {
		var err error
		if s, err = a.remote.RenewClaim(b.Context(), s, a.claim()); err != nil {
			b.Fatal(err)
		}
	}
}
