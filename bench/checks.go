package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// parallelTasks is how many tasks run concurrently when the cost of checks is measured.
const parallelTasks = 2

const slowChecksConfig = `agents: {default: slow, commands: {slow: {command: [sh, -c, 'sleep %g; exec "$0" "$1"', %q, %q]}}}
limits: {attempts: 1, rounds: 1, parallel: %d}
verify: ['echo >> "%s"; sleep %g']
`

// checks measures tasks with slow checks: the time until all of them are in review, the seconds of checks, and the excess over
// the time of one baseline, the agents, and one run of the checks for each task.
func (b *bench) checks() (err error) {
	for i, program := range b.sides() {
		err = errors.Join(err, b.checksWith(program, fmt.Sprintf("checked-%d", i)))
	}
	return err
}

func (b *bench) checksWith(program side, name string) error {
	s, err := b.newSite(name, 10, 0)
	if err != nil {
		return err
	}
	check, agent := b.checkTime.Seconds(), b.checkTime.Seconds()/5
	runs := filepath.Join(b.dir, name, "runs.log")
	err = errors.Join(s.write(".trellis/config.yaml", fmt.Sprintf(slowChecksConfig, agent, b.instant, s.log, parallelTasks, runs, check)),
		s.run("git", "commit", "-q", "-a", "-m", "check slowly"))
	for i := range b.sameBaseTasks {
		err = errors.Join(err, s.writeTask(filepath.Join(s.tasks(), fmt.Sprintf("02-01-checked-%d", i)), "ready"))
	}
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.run(program.trellis, "watch", "--once"); err != nil {
		return err
	}
	whole := time.Since(began).Seconds()
	said, err := os.ReadFile(runs)
	if err != nil {
		return err
	}
	least := check + float64((b.sameBaseTasks+parallelTasks-1)/parallelTasks)*(float64(len(roles))*agent+check)
	what := fmt.Sprintf("%d tasks from one base, %d at once, checks of %g s", b.sameBaseTasks, parallelTasks, check)
	b.rows = append(b.rows,
		row{name: program.name + what, unit: "s", samples: []float64{whole}},
		row{name: program.name + "seconds of checks in it", unit: "s", samples: []float64{float64(strings.Count(string(said), "\n")) * check}, p50: 1.25*float64(b.sameBaseTasks)*check + check},
		row{name: program.name + "beside the baseline, agents, and the checks once", unit: "%", samples: []float64{100 * (whole/least - 1)}, p50: 1})
	return nil
}
