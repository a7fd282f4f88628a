package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// jumps are the seconds by which the clock is set ahead or back.
var jumps = []int{3600, -3600}

// The clock is set by an hour while nothing runs, after a kill: the run is resumed all the same. The first play is killed at a few
// steps, the others in their middle; with FAULTS_FULL all of them at each step.
func TestClockIsSetBetweenRuns(t *testing.T) {
	for n, p := range plays {
		for i, s := range p.evenly(t, 2) {
			if !full() && n > 0 && i != 1 {
				continue
			}
			t.Run(fmt.Sprint(p.Name, " ", s, " ", jumps[(n+i)%2]), func(t *testing.T) {
				t.Parallel()
				w := p.world(t)
				w.trellis(p.Args, "FAULTS_AT="+s.String(), "FAULTS_DO=both")
				w.fill(map[string]string{"clock": fmt.Sprint(jumps[(n+i)%2])})
				if e := w.again(p.Args); e.Code != 0 {
					t.Fatalf("again: exit %d\n%s", e.Code, e.Said)
				}
				p.same(w, 1)
			})
		}
	}
}

// The clock is set by an hour while an agent works, and set right by the next one.
func TestClockIsSetDuringRuns(t *testing.T) {
	for i, p := range plays {
		p.undisturbed(t)
		for j, jump := range jumps {
			if !full() && (i+j)%2 == 1 {
				continue
			}
			t.Run(fmt.Sprint(p.Name, " ", jump), func(t *testing.T) {
				t.Parallel()
				w := p.world(t)
				set := strings.NewReplacer("echo implement >>", fmt.Sprintf("echo %d > $TRELLIS_REPO/../clock; echo implement >>", jump), "echo check >>", "echo 0 > $TRELLIS_REPO/../clock; echo check >>")
				w.fill(map[string]string{"repo/.trellis/rehearsal.yaml": set.Replace(script)})
				w.git("commit", "-q", "-am", "clock")
				began := time.Now()
				if e := w.trellis(p.Args); e.Code != 0 {
					t.Fatalf("exit %d\n%s", e.Code, e.Said)
				}
				w.gone()
				w.delivered(id, branch)
				if again, lost := w.repeated(p.calls); again > 0 || len(lost) > 0 {
					t.Errorf("calls %v, want %v", w.calls(), p.calls)
				}
				if took := time.Since(began); took > limit/2 {
					t.Errorf("it took %v", took)
				}
				p.audit(w)
			})
		}
	}
}

// The clock is set by an hour while a run waits the ten seconds before it tries an agent again, and also, after a kill,
// between two processes that wait.
func TestClockIsSetWhileARunWaits(t *testing.T) {
	const flaky = `
roles:
  implement:
    - run: ["echo implement >> $TRELLIS_REPO/../calls.log"]
      exit: 3
    - run: ["echo implement >> $TRELLIS_REPO/../calls.log"]
      files: {NOTES: "bye\n"}
      answer: done
  check:
    - run: ["echo check >> $TRELLIS_REPO/../calls.log"]
      answer: fine
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "NOTES:1"}]}
`
	for _, args := range [][]string{{"start", id}, {"watch", "--once"}} {
		for _, jump := range jumps {
			for _, killed := range []bool{false, true} {
				if !full() && (killed != (args[0] == "start") || killed && jump > 0) { // a new process is delayed by a clock that is set back
					continue
				}
				t.Run(fmt.Sprint(args[0], " ", jump, " ", killed), func(t *testing.T) {
					t.Parallel()
					w := openWorld(t, t.TempDir()).lay(flaky)
					w.task(id, nil)
					began := time.Now()
					p := w.begin(args)
					w.until(func() bool { return strings.Contains(w.read(journalFile), `"sleep"`) })
					if killed {
						_ = p.Process.Kill()
						w.wait(p)
					}
					w.fill(map[string]string{"clock": fmt.Sprint(jump)})
					e := ended{}
					if killed {
						e = w.again(args)
					} else {
						e = w.wait(p)
					}
					if took := time.Since(began); e.Code != 0 || took > limit/2 {
						t.Errorf("after %v: exit %d\n%s", took, e.Code, e.Said)
					}
					w.gone()
					w.delivered(id, branch)
					if got := w.calls()["implement"]; got != 2 {
						t.Errorf("%d calls", got)
					}
				})
			}
		}
	}
}

// until waits until happened returns true.
func (w *world) until(happened func() bool) {
	w.Helper()
	for end := time.Now().Add(limit / 2); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatal("it does not happen")
		}
	}
}
