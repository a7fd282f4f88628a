package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// objective measures how long it takes to read a roadmap of very many steps and to find the next one.
func (b *bench) objective(s *site) error {
	const steps, phase = 10_000, 100
	var text strings.Builder
	text.WriteString("# Objective: Everything\n")
	for i := range steps {
		if i%phase == 0 {
			fmt.Fprintf(&text, "\n## Phase %d: Part\n\n| Step | Description | Status | PR |\n| --- | --- | --- | --- |\n", i/phase+1)
		}
		pr := fmt.Sprintf("#%d", i+1)
		if i == steps-1 {
			pr = ""
		}
		fmt.Fprintf(&text, "| %d.%d | Replace part %d of it by another one | | %s |\n", i/phase+1, i%phase+1, i, pr)
	}
	if err := s.write(".trellis/objectives/everything.md", text.String()); err != nil {
		return err
	}
	r := row{name: fmt.Sprintf("trellis objective next, %d steps", steps), unit: "ms", p50: 100}
	for range b.fewSamples {
		if err := r.addSample(s.command(b.trellis, "objective", "next", "everything")); err != nil {
			return err
		}
	}
	b.rows = append(b.rows, r)
	return os.RemoveAll(filepath.Join(s.dir, ".trellis", "objectives"))
}
