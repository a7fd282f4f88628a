package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// tree is a run of steps on a terminal: steps that run, with their time and what they last printed
// or did, steps that are done or to come, groups and loops with their counts.
type tree struct {
	title string
	began time.Time
	used  trellis.Usage
	root  node
	nodes map[string]*node // by path
}

// node is a step, or a round of its loop.
type node struct {
	name     string // last part of the path, with the item of a round
	kind     string
	action   string
	state    workflow.State // "": not begun
	began    time.Time
	took     float64
	last     string // what it last printed or did
	detail   string // how it ended
	output   []string
	rounds   int // rounds of a loop, once they are known
	ended    int
	failed   int
	children []*node
}

// Follow begins to show a run of these steps. past is what happened before.
func (l *Live) Follow(title string, steps []plan.Line, past []workflow.Event) {
	l.change(func() {
		l.tree = newTree(title, l.now(), steps)
		for _, e := range past {
			l.tree.apply(e)
		}
	})
}

func newTree(title string, began time.Time, steps []plan.Line) *tree {
	t := &tree{title: title, began: began, nodes: map[string]*node{}}
	var loops []string
	for _, l := range steps {
		if slices.ContainsFunc(loops, func(loop string) bool { return strings.HasPrefix(l.Path, loop+".") }) {
			continue // its rounds are added as they begin
		}
		n := t.find(l.Path)
		n.kind, n.action = l.Kind, text.Cut(text.OneLine(cmp.Or(l.Does, l.Title)), maxAction)
		if l.Loop != "" {
			loops = append(loops, l.Path)
		}
	}
	return t
}

// maxAction is how many bytes are shown of what a step does.
const maxAction = 500

// find returns the node of a path. If there is none, it adds one below the node that it belongs to.
func (t *tree) find(path string) *node {
	if n := t.nodes[path]; n != nil {
		return n
	}
	parent, name := &t.root, path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, name = t.find(path[:i]), path[i+1:]
	}
	n := &node{name: name}
	if _, err := strconv.Atoi(name); err == nil {
		n.name = path[strings.LastIndexByte(strings.TrimSuffix(path, "."+name), '.')+1:]
	}
	parent.children = append(parent.children, n)
	t.nodes[path] = n
	return n
}

func (t *tree) apply(e workflow.Event) {
	n := t.find(e.Step)
	switch e.Type {
	case workflow.StepStarted, workflow.StepIteration:
		t.begin(n, e)
	case workflow.StepFinished:
		t.end(n, e)
	case workflow.StepOutput:
		t.addOutput(n, e)
	case workflow.StepJudge:
		n.last = fmt.Sprintf("judge: no, attempt %d: %s", e.Attempt, text.OneLine(e.Text))
		if e.Pass != nil && *e.Pass {
			n.last = "judge: yes"
		}
	case workflow.StepHealing:
		n.last = fmt.Sprintf("attempt %d exited with %d, healing", e.Attempt, e.Code)
		if e.State != workflow.Running {
			n.last = "healing: " + text.OneLine(e.Text)
		}
	}
}

func (t *tree) begin(n *node, e workflow.Event) {
	n.state, n.began, n.output = workflow.Running, e.At, nil
	if n.kind == "" {
		n.kind, n.action = e.Kind, text.OneLine(e.Title)
	}
	if e.Type != workflow.StepIteration {
		return
	}
	if e.Item != nil && *e.Item != strconv.Itoa(e.Round) {
		n.action = *e.Item
	}
	t.find(e.Step[:strings.LastIndexByte(e.Step, '.')]).rounds = e.Of
}

func (t *tree) end(n *node, e workflow.Event) {
	n.state, n.took, n.detail, n.last = e.State, e.Seconds, text.OneLine(e.Text), ""
	if i := strings.LastIndexByte(e.Step, '.'); i >= 0 && n.rounds == 0 {
		if loop := t.find(e.Step[:i]); loop.rounds > 0 {
			loop.ended++
			if e.State == workflow.Failed {
				loop.failed++
			}
		}
	}
	if e.State != workflow.Failed {
		n.output = nil
	}
}

// maxOutput is how many of its last lines a failed step shows.
const maxOutput = 10

func (t *tree) addOutput(n *node, e workflow.Event) {
	switch {
	case e.Usage != nil:
		t.used = t.used.Add(*e.Usage)
		return
	case e.State == workflow.Waiting:
		n.state = workflow.Waiting
	case e.Tool != "":
		n.last = e.Stream + " → " + text.OneLine(e.Tool+" "+e.Text)
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(e.Text, "\n"), "\n") {
		if strings.TrimSpace(line) != "" {
			n.last = text.OneLine(line)
		}
		n.output = append(n.output, line)
	}
	if len(n.output) > maxOutput {
		n.output = append(n.output[:0], n.output[len(n.output)-maxOutput:]...)
	}
}

// printStep prints what stays: on a terminal failures and messages, elsewhere everything.
func (l *Live) printStep(e workflow.Event) {
	n := l.tree.find(e.Step)
	switch {
	case e.Type == workflow.StepFinished && e.State == workflow.Failed && n.kind != plan.Group && n.kind != plan.Workflow && n.rounds == 0:
		l.print(e.Step + ": failed: " + n.detail)
		if l.isTerminal {
			for _, line := range n.output {
				l.print("  " + line)
			}
		}
	case e.Stream == "log":
		l.print(e.Step + ": " + e.Text)
	case l.isTerminal, n.kind == plan.Log && n.rounds == 0:
	case e.Type == workflow.StepFinished:
		took := ""
		if e.Seconds > 0 { // 0: another process began it
			took = " in " + text.Duration(time.Duration(e.Seconds*float64(time.Second)))
		}
		l.print(strings.TrimSuffix(fmt.Sprintf("%s: %s%s: %s", e.Step, e.State, took, n.detail), ": "))
	case n.kind == plan.Approval && e.Type == workflow.StepStarted: // what is asked comes next
	case e.Type == workflow.StepStarted, e.Type == workflow.StepIteration:
		l.print(strings.TrimSuffix(e.Step+": "+n.action, ": "))
	case e.Type == workflow.StepOutput && e.Usage == nil:
		l.printOutput(n, e)
	case e.Type == workflow.StepJudge, e.Type == workflow.StepHealing:
		l.print(e.Step + ": " + n.last)
	}
}

// printOutput prints output as it is, each line after the path of its step.
func (l *Live) printOutput(n *node, e workflow.Event) {
	switch {
	case e.State == workflow.Waiting:
		l.print(e.Step + ": asks: " + e.Text)
		return
	case e.Tool != "":
		l.print(e.Step + ": " + n.last)
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(trellis.Visible(e.Text), "\n"), "\n") {
		fmt.Fprintln(l.w, e.Step+" | "+line)
	}
}

// lines returns the lines that are redrawn: the head, and as much of the tree as there is room for.
func (t *tree) lines(now time.Time, width int, style Style) []string {
	var rows []row
	ended, all := 0, 0
	for _, n := range t.root.children {
		rows = append(rows, n.rows(now, 0)...)
		if all++; n.state != "" && n.state != workflow.Running && n.state != workflow.Waiting {
			ended++
		}
	}
	head := []string{fmt.Sprintf("%s: %s", text.OneLine(t.title), text.Seconds(now.Sub(t.began).Seconds())), fmt.Sprintf("%d of %d steps", ended, all)}
	lines := []string{text.Clip(strings.Join(append(head, text.UsageParts(t.used)...), " · "), width)}
	room := style.Height - 2
	if style.Height == 0 {
		room = len(rows)
	}
	for _, r := range shorten(rows, max(room, 3)) {
		lines = append(lines, r.paint(width, style.Colour))
	}
	return lines
}

// row is a line of the tree.
type row struct {
	depth int
	state workflow.State
	text  string
}

// marks are the symbols of states, and their colours.
var marks = map[workflow.State][2]string{
	"": {"·", "2"}, workflow.Running: {"▸", ""}, workflow.Done: {"✓", "32"}, workflow.Failed: {"✗", "31"}, workflow.Waiting: {"?", "33"},
	workflow.Skipped: {"–", "2"}, workflow.Blocked: {"✗", "2"},
}

func (r row) paint(width int, colour bool) string {
	mark := marks[r.state]
	return Paint(text.Clip(strings.Repeat("  ", r.depth)+mark[0]+" "+r.text, width), mark[1], colour)
}

// rows returns a step and, while it runs or waits or if it failed, the steps in it. Of a loop,
// those are only the rounds that run, wait or failed.
func (n *node) rows(now time.Time, depth int) []row {
	list := []row{{depth, n.state, n.text(now)}}
	if n.state != workflow.Running && n.state != workflow.Waiting && n.state != workflow.Failed {
		return list
	}
	for _, c := range n.children {
		if n.rounds > 0 && c.state != workflow.Running && c.state != workflow.Waiting && c.state != workflow.Failed {
			continue
		}
		list = append(list, c.rows(now, depth+1)...)
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
	if n.rounds > 0 {
		count := fmt.Sprintf("%d of %d", n.ended, n.rounds)
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
	case n.state != workflow.Done && n.action != "":
		parts = append(parts, n.action)
	}
	return strings.Join(parts, " · ")
}

// shorten makes rows fit into a number of lines, three at least. It first counts steps that are
// done and to come instead of showing them, then those that failed, and finally those that run.
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

// fold replaces consecutive rows that are in one of the states by one line.
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
