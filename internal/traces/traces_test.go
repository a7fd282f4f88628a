package traces_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/traces"
	"github.com/trellis-tasks/trellis/internal/traces/tracestest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const (
	asks   flow.Act[agentcall.Request, agentcall.Reply]    = "implement"
	checks flow.Act[string, pipeline.Checks]               = "verify"
	states flow.Act[pipeline.TaskState, int64]             = "status"
	fails  flow.Act[agentcall.Request, agentcall.Reply]    = "check"
	sends  flow.Act[pipeline.DeliverIn, pipeline.Delivery] = "deliver"
)

// secret is put wherever an agent, a person or a command may put it.
const secret = "the-secret-words"

// run writes the run of a task into a directory, and calls written for each record.
func run(t *testing.T, written func()) (dir string) {
	t.Helper()
	dir = t.TempDir()
	cost := 0.5
	at := time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { at = at.Add(time.Second); return at }
	said := &flow.Failure{Code: string(trellis.TimeoutIdle), Detail: secret}
	acts := []flow.Activity{
		asks.With(func(_ context.Context, _ flow.Call, r agentcall.Request) (agentcall.Reply, error) {
			if r.Round == 2 { // an answer of an earlier run: no agent is asked
				return agentcall.Reply{Known: true}, nil
			}
			return agentcall.Reply{Answer: []byte(`"` + secret + `"`), Excerpt: secret, Session: "s1", Model: "anthropic/claude-x", Usage: trellis.Usage{InputTokens: 70, CachedTokens: 30, OutputTokens: 5, CostUSD: &cost}}, nil
		}),
		fails.With(func(context.Context, flow.Call, agentcall.Request) (agentcall.Reply, error) {
			return agentcall.Reply{Failure: said}, nil
		}),
		checks.With(func(context.Context, flow.Call, string) (pipeline.Checks, error) {
			return pipeline.Checks{Results: []pipeline.CommandResult{{Command: "TOKEN=" + secret + " make test", Seconds: 0.25}, {Command: "make lint", Code: 2, Seconds: 0.5, Tail: secret}, {Command: "make old", Earlier: true}}}, nil
		}),
		states.With(func(context.Context, flow.Call, pipeline.TaskState) (int64, error) { return 1, nil }),
		sends.With(func(context.Context, flow.Call, pipeline.DeliverIn) (pipeline.Delivery, error) {
			return pipeline.Delivery{PRURL: "https://example.org/1"}, nil
		}),
	}
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, taskdir.Run), Activities: acts, Now: now, Wrote: written})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Begin(journal.Spec{Run: "02-01-bye/1", Flow: pipeline.Flow, Code: 1, Input: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	_, err = journal.Execute(t.Context(), j, func(f flow.Flow, _ pipeline.Input) (struct{}, error) {
		ask := func(act flow.Act[agentcall.Request, agentcall.Reply], round int) error {
			_, err := act.Do(f, agentcall.Request{Role: trellis.Role(act), Agent: "claude", Model: "claude-x", Data: []byte(`"` + secret + `"`), Round: round})
			return err
		}
		state := func(s pipeline.TaskState) error { _, err := states.Do(f, s); return err }
		err := errors.Join(state(pipeline.TaskState{Status: trellis.InProgress, Phase: "implement", Round: 1}), ask(asks, 1), ask(asks, 2),
			state(pipeline.TaskState{Status: trellis.InProgress, Phase: "check", Round: 1}), ask(fails, 1),
			state(pipeline.TaskState{Status: trellis.InProgress, Phase: "verify", Round: 1}))
		if err == nil {
			_, err = checks.Do(f, "")
		}
		if err == nil {
			_, err = sends.Do(f, pipeline.DeliverIn{Task: "02-01-bye"})
		}
		return struct{}{}, errors.Join(err, state(pipeline.TaskState{Status: trellis.Failed, Outcome: trellis.OutcomeFailed, Round: 1, Failure: flow.Fail(string(trellis.VerifyFailed), secret)}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// tracer returns a tracer that sends to c, with further variables in env, a function that takes reports, and those it has taken.
func tracer(t *testing.T, c *tracestest.Collector, env ...string) (*traces.Tracer, func(string), *told) {
	t.Helper()
	vars := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = value
	}
	s, err := traces.FromEnvironment(func(name string) string { return vars[name] })
	if err != nil || s == nil {
		t.Fatalf("%v, %v", s, err)
	}
	all := &told{}
	return traces.New(*s, "v1.2.3", func(text string) string { return strings.ReplaceAll(text, secret, "***") }), all.add, all
}

type told struct {
	mu   sync.Mutex
	list []string
}

func (l *told) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, text)
}

func (l *told) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// patience is longer than any test needs.
const patience = 15 * time.Minute

// Spans have what is known of a run, under the names of the conventions, and nothing of what agents were given or answered.
func TestSpans(t *testing.T) {
	c := tracestest.New(t)
	tr, tell, all := tracer(t, c, "OTEL_SERVICE_NAME=night", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=ci,team=a%2Cb", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20abc")
	c.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if got := r.Header.Get("Authorization"); got != "Bearer abc" {
			t.Errorf("got the header %q", got)
		}
		return false
	}
	tr.Follow(run(t, nil), tell)()
	tr.Close(patience, tell)
	if got, want := c.Tree(), `invoke_workflow 02-01-bye
  check
    invoke_agent check
  implement
    implement
    invoke_agent implement
  verify
    deliver
    verify
      command
      command`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	spans, _ := c.Spans()
	is := func(name string, failed bool, want map[string]any) {
		for _, s := range spans {
			if s.Name != name || name == "command" && s.Failed != failed {
				continue
			}
			for key, value := range want {
				if s.Attributes[key] != value {
					t.Errorf("%s: %s is %v, want %v", name, key, s.Attributes[key], value)
				}
			}
			if s.Failed != failed {
				t.Errorf("%s: failed is %v", name, s.Failed)
			}
			return
		}
		t.Errorf("there is no %s", name)
	}
	is("invoke_workflow 02-01-bye", true, map[string]any{"gen_ai.operation.name": "invoke_workflow", "cicd.pipeline.run.id": "02-01-bye/1", "cicd.pipeline.result": "failure", "error.type": "verify_failed", "trellis.task": "02-01-bye"})
	is("invoke_agent implement", false, map[string]any{"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "anthropic", "gen_ai.agent.name": "claude", "gen_ai.request.model": "claude-x",
		"gen_ai.conversation.id": "s1", "gen_ai.usage.input_tokens": int64(100), "gen_ai.usage.output_tokens": int64(5), "gen_ai.usage.cache_read.input_tokens": int64(30), "trellis.cost.usd": 0.5})
	is("invoke_agent check", true, map[string]any{"error.type": "timeout_idle"})
	is("check", true, map[string]any{"cicd.pipeline.task.name": "check", "cicd.pipeline.task.run.result": "timeout"})
	is("command", true, map[string]any{"trellis.command": "make lint", "process.exit.code": int64(2)})
	is("command", false, map[string]any{"trellis.command": "TOKEN=*** make test"})
	if r := c.Resource(); r["service.name"] != "night" || r["service.version"] != "v1.2.3" || r["team"] != "a,b" {
		t.Errorf("it is %v", r)
	}
	raw, _ := json.Marshal(spans)
	if strings.Contains(string(raw), secret) {
		t.Errorf("a span tells what was said: %s", raw)
	}
	if len(all.list) > 0 {
		t.Errorf("told %q", all.list)
	}
}

// A process that continues a run does not send spans again; one that lost the record of that sends all again, with the same ids.
func TestSentOnce(t *testing.T) {
	c := tracestest.New(t)
	dir := run(t, nil)
	for _, again := range []int{0, 0, 1} {
		if again > 0 {
			if err := os.Remove(filepath.Join(dir, taskdir.Run, "traces.json")); err != nil {
				t.Fatal(err)
			}
		}
		tr, tell, _ := tracer(t, c)
		tr.Follow(dir, tell)()
		tr.Close(patience, tell)
		spans, twice := c.Spans()
		if twice != again*len(spans) || len(spans) != 11 {
			t.Errorf("%d of %d spans came again, want %d of 11", twice, len(spans), again*11)
		}
	}
}

// A collector that is busy gets the spans when it is no longer busy.
func TestBusyCollector(t *testing.T) {
	c := tracestest.New(t)
	var asked atomic.Int32
	c.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
		code := map[int32]int{1: http.StatusTooManyRequests, 2: http.StatusServiceUnavailable}[asked.Add(1)]
		if code != 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(code)
		}
		return code != 0
	}
	tr, tell, all := tracer(t, c)
	tr.Follow(run(t, nil), tell)()
	for spans := 0; spans == 0 && all.count() == 0; { // wait here, as Close would not try again
		got, _ := c.Spans()
		spans = len(got)
		time.Sleep(10 * time.Millisecond)
	}
	tr.Close(patience, tell)
	if got := c.Requests(); got != 3 || len(all.list) > 0 {
		t.Errorf("%d requests, and told %q", got, all.list)
	}
	c.Tree()
}

// A collector that can't be reached, hangs or refuses does not change a run: nothing waits for it, and it is reported once,
// without what may be secret in its address.
func TestLostSpans(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request) bool
		says   string
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.ReadAll(r.Body) // else the server does not notice that the client hangs up
			<-r.Context().Done()
			return true
		}, "does not answer"},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusUnauthorized); return true }, "answers 401"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/else", http.StatusFound)
			return true
		}, "answers 302"},
		"in part": {func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "no"}}`))
			return true
		}, "refused 3 spans"},
		"away": {nil, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tracestest.New(t)
			c.Answer = test.answer
			env := []string{}
			if name == "away" {
				env = append(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://ada:"+secret+"@127.0.0.1:1/?key="+secret)
			}
			tr, tell, all := tracer(t, c, env...)
			began := time.Now()
			for range 3 {
				tr.Follow(run(t, nil), tell)()
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("runs took %v", took)
			}
			tr.Close(200*time.Millisecond, tell)
			if len(all.list) != 1 || !strings.Contains(all.list[0], test.says) || strings.Contains(all.list[0], secret) {
				t.Errorf("told %q, want once that it %s", all.list, test.says)
			}
		})
	}
}

// Without settings for spans, they cost nothing: there is no tracer, and following a run does nothing.
func TestOff(t *testing.T) {
	for _, env := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		if s, err := traces.FromEnvironment(func(name string) string { return env[name] }); s != nil || err != nil {
			t.Errorf("%v: got %v, %v", env, s, err)
		}
	}
	before := runtime.NumGoroutine()
	var off *traces.Tracer
	if off.Follow("x", nil) != nil {
		t.Error("a run is followed")
	}
	off.Close(time.Hour, nil)
	c := tracestest.New(t)
	unused, _, _ := tracer(t, c)
	if n := runtime.NumGoroutine(); n > before+1 { // one serves the collector
		t.Errorf("%d goroutines, %d before", n, before)
	}
	unused.Close(time.Hour, nil)
	if c.Requests() > 0 {
		t.Error("something was sent")
	}
}

// The variables of OpenTelemetry are read as its specification says; an invalid one is reported without its value.
func TestSettings(t *testing.T) {
	of := func(pairs ...string) (*traces.Settings, error) {
		return traces.FromEnvironment(func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		})
	}
	for _, test := range []struct{ all, own, want string }{
		{"http://c:4318", "", "http://c:4318/v1/traces"},
		{"https://c/base/", "", "https://c/base/v1/traces"},
		{"http://c:4318", "http://d/own", "http://d/own"},
		{"", "http://d", "http://d"},
	} {
		s, err := of("OTEL_EXPORTER_OTLP_ENDPOINT", test.all, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", test.own)
		if err != nil || s.Endpoint != test.want || s.Service != "trellis" || s.Timeout != 10*time.Second {
			t.Errorf("%v: got %+v, %v", test, s, err)
		}
	}
	s, err := of("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_HEADERS", "a=1, b = 2%20x", "OTEL_EXPORTER_OTLP_TIMEOUT", "500", "OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,x=y", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	if err != nil || s.Headers.Get("b") != "2 x" || s.Timeout != 500*time.Millisecond || s.Service != "mine" || s.Resource["x"] != "y" {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, wrong := range [][2]string{{"ENDPOINT", "c:4318"}, {"ENDPOINT", "ftp://" + secret}, {"HEADERS", secret}, {"TIMEOUT", "soon"}, {"PROTOCOL", "grpc"}} {
		if s, err := of("OTEL_EXPORTER_OTLP_"+wrong[0], wrong[1], "OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"); err == nil || s != nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v: got %v, %v", wrong, s, err)
		}
	}
}
