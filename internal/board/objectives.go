package board

import (
	"cmp"
	"context"
	"net/http"

	"github.com/trellis-tasks/trellis/internal/app"
)

// objective is a roadmap with its graph.
type objective struct {
	app.Objective
	Done, Total int
	Graph       graph
}

// Share returns how much of the objective is over, in percent.
func (o objective) Share() int {
	if o.Total == 0 {
		return 0
	}
	return 100 * o.Done / o.Total
}

// objectives returns the page of all roadmaps.
func (s *Server) objectives(context.Context, *http.Request) (string, error) {
	all, err := s.p.Objectives()
	if err != nil {
		return "", err
	}
	var list []objective
	for _, o := range all {
		one := objective{Objective: o, Graph: graphOf(o)}
		for _, ph := range o.Phases {
			for _, step := range ph.Steps {
				if one.Total++; step.Over() {
					one.Done++
				}
			}
		}
		list = append(list, one)
	}
	return render("objectives", page{Data: list, Reads: s.o.ReadOnly})
}

// graph is the dependency graph of an objective, laid out from left to right.
type graph struct {
	Width, Height int
	Nodes         []node
	Edges         []edge
}

// node is a step.
type node struct {
	X, Y     int
	ID, Says string
	State    string
	Task     string // the task that it links to
}

// edge leads from a step to one that depends on it.
type edge struct {
	X1, Y1, X2, Y2 int
	Stated         bool
}

// Middle returns where an edge bends.
func (e edge) Middle() int { return (e.X1 + e.X2) / 2 }

// Sizes of a graph.
const (
	nodeWidth, nodeHeight = 190, 46
	gapX, gapY            = 56, 14
	maxNodes              = 400
)

// graphOf lays out the steps of an objective: each one right of all that it waits for.
func graphOf(o app.Objective) (g graph) {
	var steps []app.ObjectiveStep
	index := map[string]int{}
	for _, ph := range o.Phases {
		for _, s := range ph.Steps {
			if _, twice := index[s.ID]; !twice && len(steps) < maxNodes {
				index[s.ID] = len(steps)
				steps = append(steps, s)
			}
		}
	}
	rank := stepDepths(steps, index)
	rows := map[int]int{}
	for i, s := range steps {
		n := node{X: 8 + rank[i]*(nodeWidth+gapX), Y: 8 + rows[rank[i]]*(nodeHeight+gapY), ID: clip(s.ID, 16), Says: clip(s.Description, 26), State: string(s.State), Task: s.Task}
		rows[rank[i]]++
		g.Width, g.Height = max(g.Width, n.X+nodeWidth+8), max(g.Height, n.Y+nodeHeight+8)
		g.Nodes = append(g.Nodes, n)
	}
	for i, s := range steps {
		for _, on := range s.DependsOn {
			if from, ok := index[on]; ok && from != i {
				a, b := g.Nodes[from], g.Nodes[i]
				g.Edges = append(g.Edges, edge{a.X + nodeWidth, a.Y + nodeHeight/2, b.X, b.Y + nodeHeight/2, s.Stated})
			}
		}
	}
	return g
}

// stepDepths returns for each step how many steps have to come before it, one after the other. Steps
// that depend on each other in a circle are moved no further than there are steps.
func stepDepths(steps []app.ObjectiveStep, index map[string]int) []int {
	rank := make([]int, len(steps))
	for range steps {
		moved := false
		for i, s := range steps {
			for _, on := range s.DependsOn {
				from, ok := index[on]
				if ok && from != i && rank[i] <= rank[from] && rank[from] < len(steps) {
					rank[i], moved = cmp.Or(rank[from]+1, 1), true
				}
			}
		}
		if !moved {
			break
		}
	}
	return rank
}
