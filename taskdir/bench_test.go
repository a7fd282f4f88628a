package taskdir_test

import (
	"fmt"
	"testing"

	"github.com/trellis-tasks/trellis/taskdir"
)

func BenchmarkParse(b *testing.B) {
	data := taskdir.Render(taskdir.New{Name: "auth", Title: "Add auth"})
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := taskdir.Parse("task.json", data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	s := newStore(b)
	dir := create(b, s, taskdir.New{Name: "auth"}).Dir
	b.ReportAllocs()
	for b.Loop() {
		load(b, s, dir)
	}
}

func BenchmarkUpdate(b *testing.B) {
	s := newStore(b)
	dir := create(b, s, taskdir.New{Name: "auth"}).Dir
	for i := 0; b.Loop(); i++ {
		_, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("pipeline.round", i); return nil })
		if err != nil {
			b.Fatal(err)
		}
	}
}

// many makes n task directories without syncing each.
func many(b *testing.B, n int) taskdir.Store {
	b.Helper()
	s := newStore(b)
	for i := range n {
		name := fmt.Sprintf("task-%d", i)
		byHand(b, s, "02-01-"+name, string(taskdir.Render(taskdir.New{Name: name, Title: "A task of a usual length"})))
	}
	return s
}

func benchmarkList(b *testing.B, n int) {
	s := many(b, n)
	for b.Loop() {
		entries, err := s.List()
		if err != nil || len(entries) != n {
			b.Fatalf("got %d entries %v, want %d", len(entries), err, n)
		}
	}
}

func BenchmarkList1000(b *testing.B)  { benchmarkList(b, 1000) }
func BenchmarkList10000(b *testing.B) { benchmarkList(b, 10000) }

func BenchmarkFindByName10000(b *testing.B) {
	s := many(b, 10000)
	for b.Loop() {
		if _, err := s.Find("task-5000"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlanHash(b *testing.B) {
	s := newStore(b)
	task := create(b, s, taskdir.New{Name: "auth", Files: map[string][]byte{taskdir.PRD: []byte("# x\n"), taskdir.ImplementContext: []byte("{}\n")}})
	for b.Loop() {
		if _, err := taskdir.PlanHash(task.Dir, task); err != nil {
			b.Fatal(err)
		}
	}
}
