package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long to kill at random; 0 is one world")
	soakSeed = flag.Uint64("seed", 1, "of what is random, to repeat it")
	soakOne  = flag.Int("world", 0, "only this world of the seed")
)

// score is the result of a soak.
type score struct {
	runs, kills, losses, duplicates int
}

func (s *score) add(o score) {
	s.runs += o.runs
	s.kills += o.kills
	s.losses += o.losses
	s.duplicates += o.duplicates
}

func (s score) String() string {
	return fmt.Sprintf("runs %d, kills %d, losses %d, duplicates %d", s.runs, s.kills, s.losses, s.duplicates)
}

// Tasks of all sorts run two at a time, while the worker, its guard, both, or an agent are killed at random moments,
// repeatedly: in the end each task was delivered, once.
func TestSoak(t *testing.T) {
	t.Parallel()
	var total score
	var mu sync.Mutex
	next, end := *soakOne, time.Now().Add(*soakFor)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if n := next; n == *soakOne || *soakOne == 0 && time.Now().Before(end) {
			next++
			return n, true
		}
		return 0, false
	}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for n, ok := take(); ok; n, ok = take() {
				s := soak(t, n)
				mu.Lock()
				total.add(s)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if fmt.Printf("soak: seed %d: %v\n", *soakSeed, total); total.losses+total.duplicates > 0 {
		t.Errorf("%v", total)
	}
}

// soaking is a world in which a soak runs.
type soaking struct {
	*world
	rand   *rand.Rand
	ids    []string
	want   map[string]int // calls that have to be made
	broken []string       // tasks whose check fails until mend is called
	score  score
	said   []string
}

// soak runs one world of a soak and returns its score.
func soak(t *testing.T, number int) score {
	dir, err := os.MkdirTemp("", "trellis-soak-")
	if err != nil {
		t.Error(err)
		return score{losses: 1}
	}
	s := &soaking{world: openWorld(t, dir), rand: rand.New(rand.NewPCG(*soakSeed, uint64(number))), want: map[string]int{}}
	s.prepare()
	s.disturb()
	s.settle()
	s.mend()
	s.disturb()
	s.settle()
	s.count()
	if s.score.losses+s.score.duplicates > 0 {
		t.Errorf("world %d of seed %d is kept in %s\n%s", number, *soakSeed, dir, strings.Join(s.said, "\n"))
		return s.score
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	return s.score
}

// prepare makes tasks: plain ones, some with steps, some that depend on another, some whose check fails at first.
func (s *soaking) prepare() {
	s.lay(notes)
	s.fill(map[string]string{"repo/.trellis/config.yaml": "agents: {default: rehearsal}\nverify: [sh test.sh]\nlimits: {attempts: 20, rounds: 4}\n"})
	s.git("commit", "-q", "-am", "limits")
	for i := range 3 + s.rand.IntN(3) {
		id := fmt.Sprintf("02-01-t%d", i)
		files := map[string]string{"prd.md": "# Note " + id + "\n\n## Acceptance Criteria\n\n- [ ] it is noted\n"}
		s.want["implement-"+id] = 1
		switch kind := s.rand.IntN(4); {
		case kind == 1:
			files["plan.json"] = `{"schema_version": 1, "title": "Note", "steps": [
 {"id": "note", "type": "script", "command": "echo note-` + id + ` >> ../../../calls.log"},
 {"id": "count", "type": "script", "repeat": 2, "command": "echo count-` + id + `-{{item}} >> ../../../calls.log; echo {{item}} > COUNT", "proof": {"type": "file", "path": "COUNT"}},
 {"id": "write", "type": "prompt", "prompt": "Note it."},
 {"id": "test", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it is noted", "verify": "test -d notes"}]}`
			s.want["note-"+id], s.want["count-"+id+"-1"], s.want["count-"+id+"-2"] = 1, 1, 1
		case kind == 2 && i > 0:
			files["task.json"] = fmt.Sprintf(`{"status": "ready", "pipeline": {"depends_on": [%q]}}`, s.ids[s.rand.IntN(len(s.ids))])
		case kind == 3:
			files["task.json"] = `{"status": "ready", "pipeline": {"verify": ["test -e ../../../fixed"]}}`
			s.broken = append(s.broken, id)
		}
		s.ids = append(s.ids, id)
		s.task(id, files)
	}
	s.score.runs = len(s.ids)
}

// disturb starts commands and kills them at random moments.
func (s *soaking) disturb() {
	for range 2 + s.rand.IntN(5) {
		args := []string{"watch", "--once", "--parallel", "2"}
		if s.rand.IntN(4) == 0 {
			args = []string{"start", s.ids[s.rand.IntN(len(s.ids))]}
		}
		who := append(victims, "agent")[s.rand.IntN(len(victims)+1)]
		after := time.Duration(5+s.rand.IntN(700)) * time.Millisecond
		p := s.begin(args)
		time.Sleep(after)
		s.say("%v: %s is killed after %v", args, who, after)
		if who == "agent" {
			s.strikeAgent()
			time.Sleep(after / 4) // the command itself is not killed at the same moment
			who = "both"
		}
		s.strike(p, who)
		s.score.kills++
		e := s.wait(p)
		s.say("exit %d\n%s", e.Code, e.Said)
	}
}

// strikeAgent kills a process of an agent, if one is at work.
func (s *soaking) strikeAgent() {
	for _, line := range s.processes() {
		pid, err := strconv.Atoi(strings.Fields(line)[0])
		env, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && strings.Contains(string(env), "\x00TRELLIS_ROLE=") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			s.score.kills++
			return
		}
	}
}

// settle lets every task that can run come to its end.
func (s *soaking) settle() {
	e := s.again([]string{"watch", "--once", "--parallel", "2"})
	s.say("at last: exit %d\n%s", e.Code, e.Said)
	s.gone()
}

// mend removes what kept tasks from being delivered: a check that failed, work that was not merged yet.
func (s *soaking) mend() {
	s.fill(map[string]string{"fixed": ""})
	for _, id := range s.broken {
		e := s.trellis([]string{"retry", id})
		s.say("retry %s: exit %d\n%s", id, e.Code, e.Said)
	}
	for range s.ids { // each task may wait for the one before
		s.merge()
		s.settle()
	}
}

// merge merges the tasks in review, for those that depend on them.
func (s *soaking) merge() {
	for _, id := range s.ids {
		if s.status(id) == "review" && s.git("branch", "--no-merged", "main", "--list", branchOf(id)) != "" {
			s.git("merge", "-q", "--no-edit", branchOf(id))
		}
	}
}

func branchOf(id string) string { return "feature/" + strings.TrimPrefix(id, "02-01-") }

// count finds lost work, and work that was done twice: more than one commit, or more calls than the kills account for.
func (s *soaking) count() {
	for _, id := range s.ids {
		made := s.git("log", "--branches", "--format=%H", "--grep=^Trellis-Task: "+id+"$", "--", "notes")
		if got := s.status(id); got != "review" || made == "" || s.git("show", branchOf(id)+":notes/"+id) != id {
			s.score.losses++
			s.say("LOST: %s is %s, its commits are %q", id, got, made)
		}
		if n := len(strings.Fields(made)); n > 1 {
			s.score.duplicates++
			s.say("TWICE: %s has %d commits", id, n)
		}
	}
	again, lost := s.repeated(s.want)
	if s.score.losses += len(lost); len(lost) > 0 {
		s.say("LOST: the calls %q", lost)
	}
	if again > s.score.kills {
		s.score.duplicates += again - s.score.kills
		s.say("TWICE: %d calls were made again after %d kills: %v", again, s.score.kills, s.calls())
	}
	if left := s.left(); left != "" {
		s.score.losses++
		s.say("LEFT: %s", left)
	}
}

func (s *soaking) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}
