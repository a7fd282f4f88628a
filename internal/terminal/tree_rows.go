package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/internal/workflow"
)

// row is a line of the tree.
type row struct {
	depth int
	state workflow.State
	text  string
}

// marks are what states look like, and their colours.
var marks = map[workflow.State][2]string{
	"": {"·", "2"}, workflow.Running: {"▸", ""}, workflow.Done: {"✓", "32"}, workflow.Failed: {"✗", "31"}, workflow.Waiting: {"?", "33"},
	workflow.Skipped: {"–", "2"}, workflow.Blocked: {"✗", "2"},
}

func (r row) paint(width int, colour bool) string {
	mark := marks[r.state]
	line := fit(strings.Repeat("  ", r.depth)+mark[0]+" "+r.text, width)
	if colour && mark[1] != "" {
		return "\x1b[" + mark[1] + "m" + line + "\x1b[0m"
	}
	return line
}

// rows are a step and, while it runs or when it failed, what is in it. Of a loop those rounds are shown that run, and
// those that failed.
func (t *Tree) rows(n *node, depth int) []row {
	list := []row{{depth, n.state, n.text(t.now())}}
	if n.state != workflow.Running && n.state != workflow.Waiting && n.state != workflow.Failed {
		return list
	}
	for _, c := range n.children {
		if n.of > 0 && c.state != workflow.Running && c.state != workflow.Waiting && c.state != workflow.Failed {
			continue
		}
		list = append(list, t.rows(c, depth+1)...)
	}
	return list
}

func (n *node) text(now time.Time) string {
	parts := []string{n.name}
	switch n.state {
	case workflow.Running, workflow.Waiting:
		parts = append(parts, text.Seconds(now.Sub(n.began).Seconds()))
	case workflow.Done, workflow.Failed:
		if n.took > 0 {
			parts = append(parts, text.Duration(time.Duration(n.took*float64(time.Second))))
		}
	}
	if n.of > 0 {
		count := fmt.Sprintf("%d of %d", n.ended, n.of)
		if n.failed > 0 {
			count += fmt.Sprintf(", %d failed", n.failed)
		}
		parts = append(parts, count)
	}
	switch {
	case n.state == workflow.Failed && n.detail != "":
		parts = append(parts, n.detail)
	case n.last != "" && (n.state == workflow.Running || n.state == workflow.Waiting):
		parts = append(parts, n.last)
	case n.state != workflow.Done && n.does != "":
		parts = append(parts, n.does)
	}
	return strings.Join(parts, " · ")
}

// shorten makes rows fit into a number of lines, three at least. First what is done and what is to come is counted
// in place of being shown, then what failed, and at last what runs.
func shorten(rows []row, room int) []row {
	for _, of := range [][]workflow.State{{workflow.Done, workflow.Skipped}, {"", workflow.Blocked}, {workflow.Failed}} {
		if len(rows) <= room {
			return rows
		}
		rows = fold(rows, of)
	}
	if len(rows) <= room {
		return rows
	}
	return append(rows[:room-1:room-1], row{0, workflow.Running, fmt.Sprintf("and %d more", len(rows)-room+1)})
}

// fold puts one line in the place of all rows in a row that are in one of the states.
func fold(rows []row, of []workflow.State) (short []row) {
	for i := 0; i < len(rows); {
		n := i
		for n < len(rows) && slices.Contains(of, rows[n].state) {
			n++
		}
		switch {
		case n-i > 1:
			short = append(short, row{rows[i].depth, of[0], fmt.Sprintf("%d %s", n-i, map[workflow.State]string{workflow.Done: "done", "": "to come", workflow.Failed: "failed"}[of[0]])})
			i = n
		default:
			short = append(short, rows[i])
			i++
		}
	}
	return short
}
