package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/traces"
	"github.com/trellis-tasks/trellis/internal/traces/tracestest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const childTraced = "TRELLIS_TEST_TRACED" // the child sends spans to OTEL_EXPORTER_OTLP_ENDPOINT

// traced runs a task to its review and sends its spans.
func traced(site *runner.Site) int {
	s, err := traces.FromEnvironment(os.Getenv)
	if err != nil || s == nil {
		fmt.Fprintln(os.Stderr, "no settings of traces", err)
		return 2
	}
	site.Traces = traces.New(*s, "v1", site.Redact)
	site.Event = func(e runner.Event) {
		if e.Message != "" {
			fmt.Fprintln(os.Stderr, e.Message)
		}
	}
	res, err := site.Starter().Start(context.Background(), os.Getenv(runnertest.ChildTask), runner.RunOptions{})
	site.Traces.Close(10*time.Second, func(text string) { fmt.Fprintln(os.Stderr, text) })
	if err != nil || res.Status != trellis.Review {
		fmt.Fprintln(os.Stderr, res.Status, res.Failure, err)
		return 1
	}
	return 0
}

// tracedWorld returns a world with a collector and a task whose agents record their parent span.
func tracedWorld(t *testing.T) (w *world, dir string, c *tracestest.Collector) {
	script := strings.ReplaceAll(runnertest.Counted(), "calls.log\"", "calls.log; echo $TRACEPARENT >> $TRELLIS_REPO/../parents.log\"")
	w = newWorld(t, script)
	c = tracestest.New(t)
	w.Env = append(w.Env, childTraced+"=1", "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	return w, w.Hand("02-01-bye", runnertest.ProvenPRD), c
}

// A run is one trace of the run, its phases and their activities, and each agent gets its span. A run that is killed at any step of its
// journal and resumed has the same tree of spans.
func TestTraces(t *testing.T) {
	t.Parallel()
	w, dir, c := tracedWorld(t)
	_, steps := w.Child(dir, 0)
	whole := c.Tree()
	for _, want := range []string{"invoke_workflow 02-01-bye", "\n  implement\n", "\n    invoke_agent implement", "\n  verify\n", "\n    verify\n", "\n      command"} {
		if !strings.Contains(whole, want) {
			t.Errorf("there is no %q in\n%s", want, whole)
		}
	}
	spans, again := c.Spans()
	if again > 0 {
		t.Errorf("%d spans came twice from one process", again)
	}
	parents := strings.Fields(w.Read("../parents.log"))
	for _, parent := range parents {
		part := strings.Split(parent, "-")
		if s, there := spans[part[2]]; !there || s.Trace != part[1] || !strings.HasPrefix(s.Name, "invoke_agent ") || s.Attributes["gen_ai.agent.name"] != "rehearsal" {
			t.Errorf("an agent was told %s, which is %v", parent, s)
		}
	}
	if len(parents) == 0 {
		t.Error("no agent was told of its span")
	}
	for _, at := range soak.Of([]int{steps / 8, steps / 3, steps / 2, steps * 3 / 4, steps * 7 / 8}, steps/3, steps*7/8) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w, dir, c := tracedWorld(t)
			if killed, took := w.Child(dir, at); !killed && took >= at {
				t.Fatal("it was not killed")
			}
			w.Child(dir, 0)
			if got := c.Tree(); got != whole {
				t.Errorf("killed at step %d the trace is\n%s\nand else\n%s", at, got, whole)
			}
			if _, err := os.Stat(filepath.Join(dir, "run", "traces.json")); err != nil {
				t.Error(err)
			}
		})
	}
}
