package metrics_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/metrics"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/stats"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// The table in docs/reference/metrics.md is that of the code; TRELLIS_UPDATE_DOCS=1 writes it.
func TestMetricsAreDocumented(t *testing.T) {
	const head = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	above, rest, found := strings.Cut(string(text), head)
	for strings.HasPrefix(rest, "|") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	var rows strings.Builder
	for _, m := range metrics.All() {
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), m.Help)
	}
	want := above + head + rows.String() + rest
	if os.Getenv("TRELLIS_UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !found || string(text) != want {
		t.Errorf("docs/reference/metrics.md has another table than\n%s", rows.String())
	}
}

// Whatever the names of agents, models and tasks, Prometheus reads back what was counted, and its linter finds no problem.
func TestReadBack(t *testing.T) {
	store := taskdir.Store{Root: t.TempDir()}
	const odd = "a \"name\"\\ with\na line\x00 and \xff"
	cost := 0.25
	lay(t, store, "02-01-odd", call(trellis.Implement, odd, trellis.Usage{InputTokens: 700, CachedTokens: 300, OutputTokens: 10, Seconds: 15, CostUSD: &cost, CostEstimated: true}),
		call(trellis.Check, odd, trellis.Usage{Seconds: 400}))
	for i := range 60 { // more models than get their own label
		lay(t, store, fmt.Sprintf("02-02-%d", i), call(trellis.Debug, fmt.Sprintf("model-%d", i), trellis.Usage{InputTokens: 1}))
	}
	families, text := collect(t, store)
	if problems, err := promlint.New(bytes.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	value := func(name string, labels ...string) float64 {
		for _, m := range families[name].GetMetric() {
			if having(m, labels) {
				return m.GetCounter().GetValue()
			}
		}
		t.Errorf("%s%v is not there", name, labels)
		return 0
	}
	said := strings.ToValidUTF8(odd, "\uFFFD")
	if got := value("trellis_agent_tokens_total", "model", said, "type", "cache_read"); got != 300 {
		t.Errorf("got %v tokens from the cache, want 300", got)
	}
	if got := value("trellis_agent_cost_usd_total", "model", said, "estimated", "true"); got != 0.25 {
		t.Errorf("got a cost of %v, want 0.25", got)
	}
	if got := value("trellis_agent_calls_unpriced_total", "model", "another"); got != 11 { // 61 models less the 50 with a label
		t.Errorf("got %v calls of other models, want 11", got)
	}
	took := families["trellis_agent_call_duration_seconds"].GetMetric()
	if i := slices.IndexFunc(took, func(m *dto.Metric) bool { return having(m, []string{"role", "check"}) }); i < 0 || took[i].GetHistogram().GetSampleSum() != 400 ||
		took[i].GetHistogram().GetBucket()[4].GetCumulativeCount() != 0 || took[i].GetHistogram().GetBucket()[5].GetCumulativeCount() != 1 {
		t.Errorf("got %v of a call of 400 s", took)
	}
	if n := len(families["trellis_agent_calls_unpriced_total"].GetMetric()); n != 51 {
		t.Errorf("got %d models, want 50 and one for all others", n)
	}
	if strings.Contains(string(text), "02-01-odd") {
		t.Error("a task is named")
	}
}

// Several scrapers cost as much as one: a page is kept for a while, and then made again.
func TestScrapesShare(t *testing.T) {
	store := taskdir.Store{Root: t.TempDir()}
	now := time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)
	c := collector(store, func() time.Time { return now })
	read := func() string {
		var b bytes.Buffer
		if err := c.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := read()
	lay(t, store, "02-01-new")
	if got := read(); got != first {
		t.Error("the second scrape read everything again")
	}
	now = now.Add(6 * time.Second)
	if got := read(); !strings.Contains(got, "\ntrellis_tasks{status=\"review\"} 1\n") {
		t.Errorf("after six seconds the new task is not counted:\n%s", got)
	}
}

// BenchmarkScrape scrapes 10,000 tasks with a run each: the first time, as s/first, and again after a minute without changes.
func BenchmarkScrape(b *testing.B) {
	store := taskdir.Store{Root: b.TempDir()}
	u := trellis.Usage{InputTokens: 700, CachedTokens: 300, OutputTokens: 10, Seconds: 15}
	lay(b, store, "02-01-0", call(trellis.Implement, "m", u), call(trellis.Check, "m", u), call(trellis.Debug, "m", u), call(trellis.Accept, "m", u))
	from := os.DirFS(filepath.Join(store.Tasks(), "02-01-0"))
	for i := 1; i < 10_000; i++ {
		if err := os.CopyFS(filepath.Join(store.Tasks(), fmt.Sprintf("02-01-%d", i)), from); err != nil {
			b.Fatal(err)
		}
	}
	now := time.Now()
	c := collector(store, func() time.Time { return now })
	scrape := func() {
		now = now.Add(time.Minute)
		var text bytes.Buffer
		if err := c.Write(&text); err != nil || !strings.Contains(text.String(), `"review"} 10000`) {
			b.Fatalf("%v\n%s", err, text.String())
		}
	}
	began := time.Now()
	scrape()
	first := time.Since(began)
	for b.Loop() {
		scrape()
	}
	b.ReportMetric(first.Seconds(), "s/first")
}

// asked is a call of an agent.
type asked struct {
	role  trellis.Role
	model string
	used  trellis.Usage
}

func call(role trellis.Role, model string, used trellis.Usage) asked { return asked{role, model, used} }

// lay writes a task in review with these calls in its journal, each with another role.
func lay(t testing.TB, store taskdir.Store, id string, calls ...asked) {
	t.Helper()
	dir := filepath.Join(store.Tasks(), id)
	err := os.MkdirAll(filepath.Join(dir, taskdir.Run), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, taskdir.TaskJSON), []byte(`{"status": "review"}`), 0o644)
	}
	var acts []flow.Activity
	for _, c := range calls {
		acts = append(acts, flow.Act[agentcall.Request, agentcall.Reply](c.role).With(func(context.Context, flow.Call, agentcall.Request) (agentcall.Reply, error) {
			return agentcall.Reply{Usage: c.used, Model: c.model}, nil
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, taskdir.Run), Activities: acts})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	err = j.Begin(journal.Spec{Run: id + "/1", Flow: pipeline.Flow, Code: 1, Input: []byte("{}")})
	if err == nil {
		_, err = journal.Execute(t.Context(), j, func(f flow.Flow, _ pipeline.Input) (struct{}, error) {
			for _, c := range calls {
				if _, err := flow.Act[agentcall.Request, agentcall.Reply](c.role).Do(f, agentcall.Request{Role: c.role, Agent: "claude"}); err != nil {
					return struct{}{}, err
				}
			}
			return struct{}{}, nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func collector(store taskdir.Store, now func() time.Time) *metrics.Collector {
	return metrics.New(metrics.Source{Tasks: func() status.Reader { return status.Reader{Store: store, Now: now()} }, Work: &stats.Reader{Store: store}, Version: "test", Now: now,
		Budget: func() (metrics.Budget, error) { return metrics.Budget{}, nil }})
}

// collect returns the page of a store's tasks as Prometheus reads it, and its text.
func collect(t *testing.T, store taskdir.Store) (map[string]*dto.MetricFamily, []byte) {
	t.Helper()
	var text bytes.Buffer
	if err := collector(store, time.Now).Write(&text); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return families, text.Bytes()
}

// having reports whether a sample has these labels, given as names and values.
func having(m *dto.Metric, labels []string) bool {
	is := map[string]string{}
	for _, l := range m.GetLabel() {
		is[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if is[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}
