package faults

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// play is a way to run a task, with a fault or without.
type play struct {
	Name   string
	Args   []string
	Script string
	Files  map[string]string // of the task's directory
	Config string            // additional lines of config.yaml
	Beside bool              // activities run side by side, so that they begin in any order
	Proven bool              // trellis verify finds the chain of proofs complete at the end

	once  sync.Once
	spots []spot
	want  string         // the ending of an undisturbed run
	calls map[string]int // those of agents and commands in an undisturbed run
}

const (
	id       = "02-01-bye"
	branch   = "feature/bye"
	stepsLog = "steps" // file of a world with a line for each step on the disk
)

// plays run the same task by start, by start with a plan that has steps (a script, a loop, a prompt, a check), and by watch.
var plays = []*play{
	{Name: "start", Args: []string{"start", id}, Script: script},
	{Name: "steps", Args: []string{"start", id}, Script: script, Proven: true, Files: map[string]string{"plan.json": `{"schema_version": 1, "title": "Say bye",
 "preconditions": [{"command": "test -f greet.sh"}], "files": [{"path": "greet.sh", "change": "edit"}],
 "steps": [
  {"id": "note", "type": "script", "command": "echo note >> ../../../calls.log; echo bye > NOTES"},
  {"id": "count", "type": "script", "repeat": 2, "command": "echo count-{{item}} >> ../../../calls.log; echo {{item}} > COUNT", "proof": {"type": "file", "path": "COUNT"}},
  {"id": "say_bye", "type": "prompt", "prompt": "Teach greet.sh the flag --bye.", "verify": "sh greet.sh --bye"},
  {"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}]}
`}},
	{Name: "watch", Args: []string{"watch", "--once"}, Script: script},
}

// world returns a new world with the play's task.
func (p *play) world(t testing.TB) *world {
	t.Helper()
	return p.lay(openWorld(t, t.TempDir()))
}

func (p *play) lay(w *world) *world {
	w.Helper()
	w.lay(p.Script).task(id, p.Files)
	if p.Config != "" {
		w.fill(map[string]string{"repo/.trellis/config.yaml": w.read("repo/.trellis/config.yaml") + p.Config})
	}
	return w
}

// undisturbed runs the play without faults, at the first call only, and twice to check that both runs agree: on the steps on
// the disk, and on the ending. It records these for later comparison.
func (p *play) undisturbed(t *testing.T) {
	t.Helper()
	p.once.Do(func() {
		for range 2 {
			w := p.world(t)
			if e := w.trellis(p.Args, "FAULTS_LOG="+w.path(stepsLog)); e.Code != 0 {
				t.Fatalf("undisturbed: exit %d\n%s", e.Code, e.Said)
			}
			w.gone()
			p.audit(w)
			spots, want, calls := spotsOf(w.read(stepsLog)), p.ending(w), w.calls()
			if p.spots != nil {
				if want != p.want {
					t.Fatalf("twice the same ends otherwise:\n%s", differ(want, p.want))
				}
				spots = p.inBoth(t, p.spots, spots)
			}
			p.spots, p.want, p.calls = spots, want, calls
		}
		if !strings.Contains(p.want, ".status review") || len(p.spots) < 200 {
			t.Fatalf("undisturbed, after %d steps:\n%s", len(p.spots), p.want)
		}
	})
	if p.spots == nil {
		t.Fatal("the undisturbed run failed")
	}
}

// ending returns the ending of a world, with its lines sorted if they may come in any order.
func (p *play) ending(w *world) string {
	w.Helper()
	text := w.ending(id, branch)
	if !p.Beside {
		return text
	}
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (p *play) audit(w *world) {
	w.Helper()
	if !p.Proven {
		return
	}
	if e := w.trellis([]string{"verify", id}); e.Code != 0 {
		w.Errorf("verify: exit %d\n%s", e.Code, e.Said)
	}
}

// same checks that a disturbed world has ended like an undisturbed one, and that no calls were made again except for cut
// calls that were cut off.
func (p *play) same(w *world, cut int) {
	w.Helper()
	w.gone()
	if got := p.ending(w); got != p.want {
		w.Errorf("it ended otherwise:\n%s", differ(got, p.want))
	}
	if again, lost := w.repeated(p.calls); again > cut || len(lost) > 0 {
		w.Errorf("calls %v, want %v", w.calls(), p.calls)
	}
	p.audit(w)
}

// spot is a step on the disk, and its number among the steps of the same kind and path.
type spot struct {
	Kind, Path string
	N          int
}

func (s spot) String() string { return fmt.Sprint(s.Kind, " ", s.Path, " ", s.N) }

// class returns what the paths of similar spots have in common: the file's name without numbers.
func (s spot) class() string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '#'
		}
		return r
	}, filepath.Base(s.Path))
	if len(name) >= 64 {
		name = "HASH"
	}
	return name
}

// perhaps reports whether some runs lack the step: the engine also syncs a journal when it reads its mailbox while an outcome is
// written that no record after it has synced yet.
func (s spot) perhaps() bool { return s.Kind == "sync" && filepath.Base(s.Path) == "journal.jsonl" }

// missed reports whether a run in the world, which had its steps logged, lacks a step that some runs lack.
func (w *world) missed(s spot) bool {
	w.Helper()
	return s.perhaps() && !slices.Contains(spotsOf(w.read(stepsLog)), s)
}

// inBoth returns the steps that both runs have, and fails if they differ in other steps than those that some runs lack.
func (p *play) inBoth(t *testing.T, first, second []spot) []spot {
	t.Helper()
	for _, s := range append(without(first, second), without(second, first)...) {
		if !s.perhaps() {
			t.Fatalf("one of two runs of %s comes past %v, the other does not", p.Name, s)
		}
	}
	return slices.DeleteFunc(slices.Clone(first), func(s spot) bool { return !slices.Contains(second, s) })
}

// without returns the steps of list that others lacks.
func without(list, others []spot) (only []spot) {
	for _, s := range list {
		if !slices.Contains(others, s) {
			only = append(only, s)
		}
	}
	return only
}

// spotsOf returns the steps of a log.
func spotsOf(log string) (list []spot) {
	seen := map[string]int{}
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		seen[line]++
		kind, path, _ := strings.Cut(line, " ")
		list = append(list, spot{kind, path, seen[line]})
	}
	return list
}

// evenly returns about n of the play's spots, from its beginning to its end, or all of them if everything is to be tried.
func (p *play) evenly(t *testing.T, n int) (list []spot) {
	t.Helper()
	p.undisturbed(t)
	if full() {
		return p.spots
	}
	for i := 0; i < len(p.spots); i += max(1, len(p.spots)/n) {
		list = append(list, p.spots[i])
	}
	return list
}

// spread returns a few of the play's spots, with one of each class of paths and one of each kind that no play before this
// one has, or all of them if everything is to be tried.
func (p *play) spread(t *testing.T) (list []spot) {
	t.Helper()
	even := p.evenly(t, 2)
	if full() {
		return even
	}
	hit := map[string]bool{}
	for _, other := range plays[:slices.Index(plays, p)] {
		other.undisturbed(t)
		for _, s := range other.spots {
			hit[s.class()], hit[s.Kind] = true, true
		}
	}
	classes := map[string][]int{}
	for i, s := range p.spots {
		classes[s.class()] = append(classes[s.class()], i)
	}
	chosen := map[int]bool{}
	for i, s := range p.spots {
		chosen[i] = slices.Contains(even, s)
	}
	for g, class := range slices.Sorted(maps.Keys(classes)) {
		if of := classes[class]; !hit[class] {
			chosen[of[g%len(of)]] = true // a different kind of step for each class
		}
	}
	for i, s := range p.spots {
		if chosen[i] {
			hit[s.Kind] = true
		}
	}
	for i, s := range p.spots {
		if chosen[i] || !hit[s.Kind] {
			hit[s.Kind] = true
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b spot) int { return strings.Compare(a.Kind, b.Kind) }) // each half has some of each kind
	return list
}
