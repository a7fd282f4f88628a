package pipeline

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/git"
)

// A summary of many files names only some of them, but counts the changed lines of all.
func TestStatOfMany(t *testing.T) {
	t.Parallel()
	list := []git.Change{}
	for range statLines + 3 {
		list = append(list, git.Change{Kind: 'A', Path: "notes.txt", Added: 2, Deleted: 1})
	}
	list[statLines+1].Added, list[statLines+1].Deleted = -1, -1 // not a text file
	said := stat(list)
	if want := "\n… and 3 more files +4 -2\n"; !strings.HasSuffix(said, want) {
		t.Errorf("got %q, want %q at its end", said, want)
	}
	files, added, deleted := events.Outcome{Stat: said}.Changes()
	if files != statLines+3 || added != 2*(statLines+2) || deleted != statLines+2 {
		t.Errorf("read as %d files +%d -%d", files, added, deleted)
	}
	if files, added, _ := (events.Outcome{Stat: "A a +1 -0\n… and 4 more files\n"}).Changes(); files != 5 || added != 1 {
		t.Errorf("of an earlier run: %d files +%d", files, added)
	}
}

// Commands start in order. If several may run at once, those that a failure would skip come last.
func TestCommandsBegin(t *testing.T) {
	t.Parallel()
	commands, later := []string{"build", "lint", "test", "vet"}, []string{"build", "test"}
	for atOnce, want := range map[int][]int{0: {0, 1, 2, 3}, 1: {0, 1, 2, 3}, 2: {1, 3, 0, 2}} {
		in := checksIn{Job: Job{VerifyParallel: atOnce}, Later: later}
		if got := in.runOrder(commands); !slices.Equal(got, want) {
			t.Errorf("%d at once: got %v, want %v", atOnce, got, want)
		}
	}
}
