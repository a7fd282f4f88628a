package main

import (
	"fmt"
	"strings"
)

// planning measures a whole `trellis plan` compared to the agents on its critical path: evaluate, research (with TaskSpec at
// the same time), plan, judge. The rest is Trellis' own time, including its start.
func (b *bench) planning(s *site) error {
	whole, alone := row{name: "trellis plan, five calls", unit: "ms"}, row{name: "beside it: four agents one after the other", unit: "ms"}
	own := row{name: "the one less the other", unit: "ms", p50: 50}
	for i := range b.fewSamples {
		if err := whole.addSample(s.command(b.trellis, "plan", "-n", fmt.Sprintf("planned-%d", i), "-t", "backend", "-r", "Write work.txt.")); err != nil {
			return err
		}
		began := len(alone.samples)
		for _, role := range []string{"evaluate", "research", "plan", "judge"} {
			cmd := s.command(b.instant, s.log)
			cmd.Stdin = strings.NewReader("A prompt.\n")
			cmd.Env = append(cmd.Environ(), "TRELLIS_ROLE="+role, "TRELLIS_TASK_ID=planned")
			if err := alone.addSample(cmd); err != nil {
				return err
			}
		}
		sum := 0.0
		for _, ms := range alone.samples[began:] {
			sum += ms
		}
		alone.samples = append(alone.samples[:began], sum)
		own.samples = append(own.samples, whole.samples[i]-sum)
	}
	b.rows = append(b.rows, whole, alone, own)
	return nil
}

// longRequirement is a requirement that is long enough for calls ahead of the verdict.
const longRequirement = "Write work.txt. It names the task in its first line, ends in a line feed, and has nothing else in it; no other file is changed."

// speculation measures a whole `trellis plan` with slow agents: with evaluate, research and TaskSpec running concurrently, and, with
// planning.speculate off, with evaluate before the other two.
func (b *bench) speculation() error {
	s, err := b.newSite("ahead", 10, 0)
	if err != nil {
		return err
	}
	took := b.agentTime.Seconds()
	for _, way := range []struct {
		speculate bool
		calls     float64 // number of calls that run one after the other
		name      string
	}{
		{true, 3, fmt.Sprintf("trellis plan, agents that take %g s each", took)},
		{false, 4, "the same with planning.speculate: false"},
	} {
		text := fmt.Sprintf("agents: {default: instant, commands: {instant: {command: [%q, %q, %q]}}}\nplanning: {speculate: %t}\n", b.instant, s.log, b.agentTime, way.speculate)
		if err := s.write(".trellis/config.yaml", text); err != nil {
			return err
		}
		whole := row{name: way.name, unit: "s"}
		for i := range max(1, b.fewSamples/4) {
			if err := whole.addSample(s.command(b.trellis, "plan", "-n", fmt.Sprintf("ahead-%t-%d", way.speculate, i), "-t", "backend", "-r", longRequirement)); err != nil {
				return err
			}
		}
		for i := range whole.samples {
			whole.samples[i] /= 1000
		}
		whole.p50 = (way.calls + 0.5) * took
		b.rows = append(b.rows, whole)
	}
	return nil
}
