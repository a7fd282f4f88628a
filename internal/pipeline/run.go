package pipeline

import (
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// run is what a run knows so far. It is rebuilt by replay.
type run struct {
	in       Input
	job      Job
	phase    string
	told     string // base commit that task.json was told of
	round    int
	first    *trouble          // that the rounds begin with
	spent    int               // rounds that steps used up
	stuck    map[string]string // by path, the tree on which a step failed last
	criteria []Criterion       // of the content that was taken in last
	named    []string          // verify commands that the task itself names
	foot     map[string]string // what verdicts stand on, when the worktree was ready
	rep      Report

	bundle func(hash string) (*plan.Bundle, error)
}

// enter writes the phase to task.json; the first time, with what the claim fixed.
func (r *run) enter(f flow.Flow, phase string) error {
	s := r.standing(trellis.InProgress)
	s.Phase = phase
	r.tell(&s)
	r.phase = phase
	_, err := project.Do(f, s)
	return err
}

// tell adds what task.json does not know yet of where the work stands.
func (r *run) tell(s *Standing) {
	if r.told != r.job.BaseCommit {
		s.Job, r.told = &r.job, r.job.BaseCommit
	}
}

func (r *run) standing(to trellis.Status) Standing {
	return Standing{Status: to, Phase: r.phase, Round: max(r.round, 1), Attempt: r.rep.Attempts + 1, Usage: r.rep.Usage}
}

func (r *run) note(notes []string) {
	for _, n := range notes {
		if len(r.rep.Notes) >= maxNotes {
			return
		}
		n = short(n)
		known := false
		for _, old := range r.rep.Notes {
			known = known || old == n
		}
		if !known {
			r.rep.Notes = append(r.rep.Notes, n)
		}
	}
}

const (
	maxNotes = 30  // of a report
	maxSaid  = 400 // bytes of one note, of a criterion's evidence
)

// short is a text that fits into a record beside others.
func short(s string) string { return text.Cut(s, maxSaid) }

// tell joins sentences, the first of them when there are many.
func tell(said []string) string {
	if len(said) > 10 {
		said = append(said[:10:10], fmt.Sprintf("and %d more", len(said)-10))
	}
	return strings.Join(said, "; ")
}

// few is a list that fits into a record: the first paths, cut where they are long, and how many more there are.
func few(paths []string) []string {
	const most, long = 20, 200
	if len(paths) > most {
		paths = append(paths[:most:most], fmt.Sprintf("and %d more", len(paths)-most))
	}
	for i, p := range paths {
		if len(p) > long {
			paths[i] = strings.ToValidUTF8(p[:long], "") + "…"
		}
	}
	return paths
}

func tail(s string, n int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "�"))
	if len(s) <= n {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-n:], "")
}
