package faults

import (
	"fmt"
	"testing"
)

// victims are the processes that a kill hits. The kernel kills a worker whose guard is gone.
var victims = []string{"worker", "guard", "both"}

// delays are the times until a kill: "" kills before the step, the others after it or in the middle of what follows.
var delays = []string{"", "1ms", "4ms"}

// A command that is killed before, in or after any step on the disk, and started again, ends like an undisturbed one.
// TestDiskFailsAtEveryStep covers the other half of the spread.
func TestKilledAtEveryStep(t *testing.T) {
	for _, p := range plays {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			spots := half(p.spread(t), 1)
			t.Logf("%d steps, kills at %d of them", len(p.spots), len(spots))
			for i, s := range spots {
				for j := range len(victims) {
					if !full() && j != i%len(victims) {
						continue
					}
					p.kill(t, s, victims[j], delays[(i/len(victims)+j)%len(delays)])
				}
			}
		})
	}
}

// The same if the checks at base run beside the first agent. The order of the steps differs between runs there, so that a run may
// not reach the step: then nothing is killed.
func TestKilledWhileTheBaselineRunsBeside(t *testing.T) {
	p := &play{Name: "beside", Args: []string{"start", id}, Script: script, Config: "baseline: parallel\n", Beside: true}
	for i, s := range p.evenly(t, 2) {
		p.kill(t, s, victims[i%len(victims)], "1ms")
	}
}

func (p *play) kill(t *testing.T, s spot, who, later string) {
	t.Run(fmt.Sprint(s, " ", who, later), func(t *testing.T) {
		t.Parallel()
		w := p.world(t)
		killed := w.trellis(p.Args, "FAULTS_AT="+s.String(), "FAULTS_DO="+who, "FAULTS_LATER="+later, "FAULTS_LOG="+w.path(stepsLog))
		if killed.Code == 0 && later == "" && !w.missed(s) {
			t.Fatalf("it was not killed:\n%s", killed.Said)
		}
		if e := w.again(p.Args); e.Code != 0 {
			t.Fatalf("again: exit %d\n%s\nbefore: exit %d\n%s", e.Code, e.Said, killed.Code, killed.Said)
		}
		p.same(w, 1)
	})
}
