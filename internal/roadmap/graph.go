package roadmap

import (
	"cmp"
	"fmt"
	"strings"
)

// Graphs are the formats that [Roadmap.Graph] supports.
var Graphs = []string{"mermaid", "dot"}

// fills are the colours of the states.
var fills = map[State]string{Pending: "#ffffff", Planning: "#e7dcff", InProgress: "#cfe8ff", Done: "#d3f2d3", Blocked: "#ffd6d6", Skipped: "#e6e6e6"}

// Graph draws the steps and their dependencies, with a box for each phase. A stated dependency is a solid line, one on the
// previous step is dashed. An unknown format is an error.
func (r *Roadmap) Graph(format string) (string, error) {
	switch format {
	case "mermaid":
		return r.mermaid(), nil
	case "dot":
		return r.dot(), nil
	}
	return "", fmt.Errorf("unknown graph %q (one of %s)", format, strings.Join(Graphs, ", "))
}

func (r *Roadmap) mermaid() string {
	label := strings.NewReplacer(`"`, "#quot;", "#", "#35;", "<", "#lt;", ">", "#gt;", "`", "#96;", "&", "#amp;")
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for n, p := range r.Phases {
		fmt.Fprintf(&b, "  subgraph p%d [\"%s\"]\n", n, label.Replace(cmp.Or(p.Title, r.Title)))
		for _, i := range p.Steps {
			fmt.Fprintf(&b, "    s%d[\"%s\"]:::%s\n", i, label.Replace(r.Steps[i].label()), r.Steps[i].State)
		}
		b.WriteString("  end\n")
	}
	r.edges(func(from, to int, stated bool) {
		arrow := "-.->"
		if stated {
			arrow = "-->"
		}
		fmt.Fprintf(&b, "  s%d %s s%d\n", from, arrow, to)
	})
	for _, state := range States {
		fmt.Fprintf(&b, "  classDef %s fill:%s,stroke:#666,color:#000\n", state, fills[state])
	}
	return b.String()
}

func (r *Roadmap) dot() string {
	label := strings.NewReplacer(`"`, `\"`, `\`, `\\`)
	var b strings.Builder
	fmt.Fprintf(&b, "digraph {\n  label=\"%s\"\n  node [shape=box, style=filled]\n", label.Replace(r.Title))
	for n, p := range r.Phases {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=\"%s\"\n", n, label.Replace(p.Title))
		for _, i := range p.Steps {
			fmt.Fprintf(&b, "    s%d [label=\"%s\", fillcolor=\"%s\"]\n", i, label.Replace(r.Steps[i].label()), fills[r.Steps[i].State])
		}
		b.WriteString("  }\n")
	}
	r.edges(func(from, to int, stated bool) {
		style := " [style=dashed]"
		if stated {
			style = ""
		}
		fmt.Fprintf(&b, "  s%d -> s%d%s\n", from, to, style)
	})
	b.WriteString("}\n")
	return b.String()
}

// edges calls yield for all dependencies; from comes before to.
func (r *Roadmap) edges(yield func(from, to int, stated bool)) {
	for i, s := range r.Steps {
		for _, id := range s.DependsOn {
			if from, ok := r.index[id]; ok {
				yield(from, i, s.Stated)
			}
		}
	}
}

// label returns the label of a step in a graph.
func (s *Step) label() string {
	if s.Description == "" {
		return s.ID
	}
	return s.ID + ": " + s.Description
}
