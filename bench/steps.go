package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
)

// step is a step in a file for `trellis run`.
type step struct {
	ID       string    `json:"id"`
	Command  string    `json:"command,omitempty"`
	Parallel bool      `json:"parallel,omitempty"`
	Depends  *[]string `json:"depends_on,omitempty"`
	Steps    []step    `json:"steps,omitempty"`
}

// steps measures the cost of a step that does nothing, compared to starting a shell for the same command, and to sh and make
// running the same commands. Each sample is the time of a whole run divided by the number of steps.
func (b *bench) steps(s *site) error {
	chain, groups := make([]step, b.chainSteps), make([]step, 10)
	for i := range chain {
		chain[i] = step{ID: fmt.Sprintf("s%d", i), Command: "true"}
	}
	for g := range groups {
		groups[g] = step{ID: fmt.Sprintf("g%d", g), Parallel: true, Depends: &[]string{}}
		for i := range b.chainSteps / len(groups) {
			groups[g].Steps = append(groups[g].Steps, step{ID: fmt.Sprintf("s%d_%d", g, i), Command: "true", Depends: &[]string{}})
		}
	}
	for name, list := range map[string][]step{"chain.json": chain, "groups.json": groups} {
		raw, err := json.Marshal(map[string]any{"schema_version": 1, "title": name, "parallel": name == "groups.json", "steps": list})
		if err != nil {
			return err
		}
		if err := s.write(name, string(raw)); err != nil {
			return err
		}
	}
	if err := s.scripts(b.chainSteps); err != nil {
		return err
	}
	return s.measureSteps(b)
}

// scripts writes the same commands for sh and make.
func (s *site) scripts(n int) error {
	var targets, rules strings.Builder
	for i := range n {
		fmt.Fprintf(&targets, " t%d", i)
		fmt.Fprintf(&rules, "t%d:\n\t@true\n", i)
	}
	for name, text := range map[string]string{"shells.sh": strings.Repeat("bash -o pipefail -c true\n", n), "true.sh": strings.Repeat("env true\n", n), "true.mk": "all:" + targets.String() + "\n" + rules.String()} {
		if err := s.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) measureSteps(b *bench) error {
	made := fmt.Sprintf("%d steps", b.chainSteps)
	rows := []row{{name: made + " in a chain, each", unit: "ms"}, {name: "beside it: as many shells by sh", unit: "ms"}, {name: "the one less the other", unit: "ms", p50: 3},
		{name: made + " in parallel groups, each", unit: "ms"}, {name: "beside it: as many programs by sh", unit: "ms"}}
	commands := [][]string{{b.trellis, "run", "chain.json"}, {"sh", "shells.sh"}, nil, {b.trellis, "run", "groups.json"}, {"sh", "true.sh"}}
	if _, err := exec.LookPath("make"); err == nil {
		rows = append(rows, row{name: "beside it: as many by make -j", unit: "ms"})
		commands = append(commands, []string{"make", "-s", fmt.Sprintf("-j%d", runtime.NumCPU()), "-f", "true.mk"})
	}
	for range max(1, b.fewSamples/5) {
		for i, words := range commands {
			if words == nil {
				continue
			}
			if err := rows[i].addSample(s.command(words[0], words[1:]...)); err != nil {
				return err
			}
			rows[i].samples[len(rows[i].samples)-1] /= float64(b.chainSteps)
		}
		last := len(rows[0].samples) - 1
		rows[2].samples = append(rows[2].samples, rows[0].samples[last]-rows[1].samples[last])
	}
	b.rows = append(b.rows, rows...)
	return nil
}
