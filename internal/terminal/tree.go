package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// Tree shows a run of steps while it happens. On a terminal it is a tree that is written over: what runs with its
// time and the last that it said or did, what is done and what is to come, groups and loops with their counts.
// Elsewhere there are lines for the begin and the end of every step, and its output. Its methods may be called by
// several goroutines.
type Tree struct {
	screen
	now   func() time.Time
	title string
	began time.Time
	used  trellis.Usage
	root  *node
	nodes map[string]*node // by path
}

// node is a step, or a round of its loop.
type node struct {
	name     string // last part of the path, with the item of a round
	kind     string
	does     string
	state    workflow.State // "": its turn has not come
	began    time.Time
	took     float64
	last     string // that it said or did
	detail   string // how it ended
	said     []string
	of       int // rounds of a loop, once they are known
	ended    int
	failed   int
	children []*node
}

// treeEvery is how often the tree is drawn: output comes faster than anybody reads.
const treeEvery = 100 * time.Millisecond

// NewTree is the tree of these steps on w, which is a terminal when live. [Tree.Close] must be called.
func NewTree(w io.Writer, style Style, live bool, now func() time.Time, title string, steps []plan.Line) *Tree {
	t := &Tree{screen: screen{w: w, style: style, live: live}, now: now, title: title, began: now(), root: &node{}, nodes: map[string]*node{}}
	var loops []string
	for _, l := range steps {
		if inside(l.Path, loops) {
			continue // its rounds are steps of their own
		}
		n := t.find(l.Path)
		n.kind, n.does = l.Kind, text.OneLine(l.Does)
		if n.does == "" {
			n.does = text.OneLine(l.Title)
		}
		if l.Loop != "" {
			loops = append(loops, l.Path)
		}
	}
	t.frame = t.lines
	t.open(treeEvery)
	return t
}

func inside(path string, loops []string) bool {
	for _, loop := range loops {
		if strings.HasPrefix(path, loop+".") {
			return true
		}
	}
	return false
}

// find is the node of a path, a new one below the one that it belongs to if need be.
func (t *Tree) find(path string) *node {
	if n := t.nodes[path]; n != nil {
		return n
	}
	parent, name := t.root, path
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

// Past takes in what happened before anybody looked.
func (t *Tree) Past(list []workflow.Event) {
	t.change(func() {
		for _, e := range list {
			t.take(e, false)
		}
	})
}

// Take takes in what happens.
func (t *Tree) Take(e workflow.Event) {
	if t.live && e.Type == workflow.StepOutput && e.Stream != "log" {
		t.note(func() { t.take(e, true) })
		return
	}
	t.change(func() { t.take(e, true) })
}

// Close takes the tree off the screen. After it nothing is shown.
func (t *Tree) Close() { t.close(func() { t.root.children = nil; t.title = "" }) }

// take changes the tree, and says what stays on the screen.
func (t *Tree) take(e workflow.Event, told bool) {
	n := t.find(e.Step)
	switch e.Type {
	case workflow.StepStarted, workflow.StepIteration:
		t.begin(n, e)
	case workflow.StepFinished:
		t.end(n, e)
	case workflow.StepOutput:
		t.output(n, e)
	case workflow.StepJudge:
		n.last = fmt.Sprintf("judge: no, attempt %d: %s", e.Attempt, text.OneLine(e.Text))
		if e.Pass != nil && *e.Pass {
			n.last = "judge: yes"
		}
	case workflow.StepHealing:
		n.last = fmt.Sprintf("attempt %d ended with %d, healing", e.Attempt, e.Code)
		if e.State != workflow.Running {
			n.last = "healing: " + text.OneLine(e.Text)
		}
	}
	if told {
		t.tell(n, e)
	}
}

func (t *Tree) begin(n *node, e workflow.Event) {
	n.state, n.began, n.said = workflow.Running, e.At, nil
	if n.kind == "" {
		n.kind, n.does = e.Kind, text.OneLine(e.Title)
	}
	if e.Type != workflow.StepIteration {
		return
	}
	if e.Item != nil && *e.Item != strconv.Itoa(e.Round) {
		n.does = *e.Item
	}
	t.find(e.Step[:strings.LastIndexByte(e.Step, '.')]).of = e.Of
}

func (t *Tree) end(n *node, e workflow.Event) {
	n.state, n.took, n.detail, n.last = e.State, e.Seconds, text.OneLine(e.Text), ""
	if i := strings.LastIndexByte(e.Step, '.'); i >= 0 && n.of == 0 {
		if loop := t.find(e.Step[:i]); loop.of > 0 {
			loop.ended++
			if e.State == workflow.Failed {
				loop.failed++
			}
		}
	}
	if e.State != workflow.Failed {
		n.said = nil
	}
}

// maxSaid is how many of its last lines a step that failed shows.
const maxSaid = 10

func (t *Tree) output(n *node, e workflow.Event) {
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
		n.said = append(n.said, line)
	}
	if len(n.said) > maxSaid {
		n.said = append(n.said[:0], n.said[len(n.said)-maxSaid:]...)
	}
}

// tell prints what stays: on a terminal what went wrong, and messages; elsewhere all.
func (t *Tree) tell(n *node, e workflow.Event) {
	switch {
	case e.Type == workflow.StepFinished && e.State == workflow.Failed && n.kind != plan.Group && n.kind != plan.Workflow && n.of == 0:
		t.print(e.Step + ": failed: " + n.detail)
		if t.live {
			for _, line := range n.said {
				t.print("  " + line)
			}
		}
	case e.Stream == "log":
		t.print(e.Step + ": " + e.Text)
	case t.live, n.kind == plan.Log && n.of == 0:
	case e.Type == workflow.StepFinished:
		t.print(strings.TrimSuffix(fmt.Sprintf("%s: %s in %s: %s", e.Step, e.State, text.Duration(time.Duration(e.Seconds*float64(time.Second))), n.detail), ": "))
	case e.Type == workflow.StepStarted, e.Type == workflow.StepIteration:
		t.print(strings.TrimSuffix(e.Step+": "+n.does, ": "))
	case e.Type == workflow.StepOutput && e.Usage == nil:
		t.plain(n, e)
	case e.Type == workflow.StepJudge, e.Type == workflow.StepHealing:
		t.print(e.Step + ": " + n.last)
	}
}

// plain prints output as it is, behind the step that it is of.
func (t *Tree) plain(n *node, e workflow.Event) {
	switch {
	case e.State == workflow.Waiting:
		t.print(e.Step + ": waits: " + e.Text)
		return
	case e.Tool != "":
		t.print(e.Step + ": " + n.last)
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(Safe(e.Text), "\n"), "\n") {
		fmt.Fprintln(t.w, e.Step+" | "+line)
	}
}

// lines are what is written over: the head, and as much of the tree as there is room for.
func (t *Tree) lines(width int) []string {
	if t.title == "" {
		return nil
	}
	var rows []row
	ended, all := 0, 0
	for _, n := range t.root.children {
		rows = append(rows, t.rows(n, 0)...)
		if all++; n.state != "" && n.state != workflow.Running && n.state != workflow.Waiting {
			ended++
		}
	}
	head := fmt.Sprintf("%s: %s · %d of %d steps", text.OneLine(t.title), text.Seconds(t.now().Sub(t.began).Seconds()), ended, all)
	if n := t.used.Tokens(); n > 0 {
		head += " · " + text.Tokens(n) + " tokens"
	}
	if t.used.CostUSD != nil {
		head += fmt.Sprintf(" · $%.2f", *t.used.CostUSD)
	}
	lines := []string{fit(head, width)}
	room := t.style.Height - 2
	if t.style.Height == 0 {
		room = len(rows)
	}
	for _, r := range shorten(rows, max(room, 3)) {
		lines = append(lines, r.paint(width, t.style.Colour))
	}
	return lines
}
