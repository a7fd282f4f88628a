package e2e

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents/modelserver"
)

const (
	first = "the very first"
	no    = `{"decision":"reject","category":"unclear","details":"What is a bye?","suggestions":["Say what it prints."],"size":"small","confidence":0.9}`
)

// A requirement is rejected while the real programs for research and TaskSpec are still working on it: both are ended, none of
// their processes is left, and the tokens that research had used by then are counted.
func TestRejectedWhileOthersWork(t *testing.T) {
	for _, cli := range clis {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			seldom(t, cli, "internal/runner", "codex")
			both := make(chan struct{})
			var once [2]sync.Once
			var working sync.WaitGroup
			working.Add(2)
			go func() { working.Wait(); close(both) }()
			s, _ := scene(t, cli, func(r modelserver.Request) modelserver.Turn {
				usage := modelserver.Usage{Input: 1000, Output: 50}
				switch role := role(r); {
				case strings.Contains(r.Prompt, first):
					return modelserver.Turn{Text: no, Usage: usage}
				case role == "evaluate":
					select {
					case <-both:
					case <-time.After(hang / 3):
					}
					return modelserver.Turn{Text: no, Usage: usage}
				case role == "research" && r.Turns == 0:
					return modelserver.Turn{Calls: []modelserver.Call{look(r)}, Usage: usage}
				case role == "research":
					once[0].Do(working.Done)
				case role == "taskspec":
					once[1].Do(working.Done)
				default:
					return modelserver.Turn{Text: "Done."}
				}
				return modelserver.Turn{Hang: true, Usage: usage}
			})
			if cli == "opencode" { // whose very first starts in a home folder must not overlap: each of them creates its database
				s.trellis(4, "plan", "-n", "first", "-t", "backend", "-r", first)
			}
			began := time.Now()
			out, errs := s.trellis(4, "plan", "-n", "bye", "-t", "backend", "-r", "greet.sh takes a flag --bye. With it, it says what one says when one leaves, and nothing else; all else stays as it is now.")
			if took := time.Since(began); took > hang/2 {
				t.Errorf("it took %s", took)
			}
			if left := processes(t, s.Dir); len(left) > 0 {
				t.Errorf("processes are left: %q", left)
			}
			dir := out[strings.LastIndexByte(out, '\n')+1:]
			if got := s.read(dir + "/REJECTED.md"); !strings.Contains(got, "What is a bye?") {
				t.Errorf("REJECTED.md is\n%s", got)
			}
			var task struct {
				Pipeline struct {
					Usage struct{ Input_tokens, Output_tokens int64 }
				}
			}
			if err := json.Unmarshal([]byte(s.read(dir+"/task.json")), &task); err != nil {
				t.Fatal(err)
			}
			if u := task.Pipeline.Usage; u.Input_tokens < 2000 || u.Output_tokens < 100 {
				t.Errorf("task.json says %+v\n%s", u, errs)
			}
			if !strings.Contains(errs, "research called off: the requirement was rejected") {
				t.Errorf("said\n%s", errs)
			}
		})
	}
}
