package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Steps prints steps as a run would do them.
func Steps(w io.Writer, steps []plan.Line) error {
	var b strings.Builder
	for i, s := range steps {
		pad := strings.Repeat("  ", s.Depth)
		fmt.Fprintf(&b, "%s%s (%s)", pad, s.Path, s.Kind)
		if s.Title != "" {
			b.WriteString(": " + text.OneLine(s.Title))
		}
		b.WriteByte('\n')
		say := func(what, text string) {
			if text != "" {
				fmt.Fprintf(&b, "%s    %-8s %s\n", pad, what, text)
			}
		}
		say(map[string]string{plan.Script: "runs", plan.Prompt: "asks", plan.Log: "says", plan.Workflow: "calls"}[s.Kind], s.Does)
		say("for", s.Loop)
		say("verify", s.Verify)
		say("proof", s.Proof)
		if s.Asks {
			say("waits", "for a person's approval")
		}
		if isSequential(steps, i) {
			continue
		}
		if len(s.After) == 0 {
			say("after", "nothing")
		}
		say("after", strings.Join(s.After, ", "))
	}
	_, err := io.WriteString(w, trellis.Visible(b.String()))
	return err
}

// isSequential reports whether a step comes after the one before it, which is the default.
func isSequential(steps []plan.Line, i int) bool {
	for j := i - 1; j >= 0; j-- {
		if steps[j].Depth == steps[i].Depth {
			return len(steps[i].After) == 1 && steps[i].After[0] == steps[j].Path
		}
		if steps[j].Depth < steps[i].Depth {
			break
		}
	}
	return len(steps[i].After) == 0
}
