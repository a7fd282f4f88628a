package main

import (
	"fmt"
	"strings"
)

// planning measures a whole `trellis plan` beside the agents on its critical path: evaluate, research (with the
// TaskSpec at the same time), plan, judge. What is above them is Trellis' own time, its start included.
func (b *bench) planning(s *site) error {
	whole, alone := row{name: "trellis plan, five calls", unit: "ms"}, row{name: "beside it: four agents one after the other", unit: "ms"}
	own := row{name: "the one less the other", unit: "ms", p50: 50}
	for i := range b.few {
		if err := whole.time(s.command(b.trellis, "plan", "-n", fmt.Sprintf("planned-%d", i), "-t", "backend", "-r", "Write work.txt.")); err != nil {
			return err
		}
		began := len(alone.samples)
		for _, role := range []string{"evaluate", "research", "plan", "judge"} {
			cmd := s.command(b.instant, s.log)
			cmd.Stdin = strings.NewReader("A prompt.\n")
			cmd.Env = append(cmd.Environ(), "TRELLIS_ROLE="+role, "TRELLIS_TASK_ID=planned")
			if err := alone.time(cmd); err != nil {
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
