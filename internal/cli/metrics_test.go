package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"

	"github.com/trellis-tasks/trellis/internal/metrics"
)

// scraped is the script command "scraped FILE": the file is valid for Prometheus and has exactly the documented metrics, and the panels
// and rules of docs/reference/metrics use no others.
func scraped(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: scraped FILE")
	}
	text := []byte(ts.ReadFile(args[0]))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	there, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	ts.Check(err)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	ts.Check(err)
	if len(problems) > 0 {
		ts.Fatalf("promlint: %v", problems)
	}
	for _, m := range metrics.All() {
		if there[m.Name] == nil {
			ts.Fatalf("%s is not there", m.Name)
		}
	}
	if len(there) != len(metrics.All()) {
		ts.Fatalf("%d metrics are there, and %d documented", len(there), len(metrics.All()))
	}
	asked := slices.Concat(panels(ts), rules(ts))
	for _, expr := range asked {
		names := namesIn(ts, expr)
		if len(names) == 0 {
			ts.Fatalf("%s asks for no metric", expr)
		}
		for _, name := range names {
			family := there[name]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if family == nil && strings.HasSuffix(name, suffix) {
					family = there[strings.TrimSuffix(name, suffix)]
				}
			}
			if family == nil && !strings.HasPrefix(name, "node_textfile_") { // from node_exporter
				ts.Fatalf("%s asks for %s, which is not there", expr, name)
			}
		}
	}
	if len(asked) < 20 {
		ts.Fatalf("only %d expressions were found", len(asked))
	}
}

// namesIn returns the metrics of an expression. VictoriaMetrics' parser reads all of PromQL, and is much smaller than Prometheus' module.
func namesIn(ts *testscript.TestScript, expr string) (names []string) {
	parsed, err := metricsql.Parse(expr)
	if err != nil {
		ts.Fatalf("%s: %v", expr, err)
	}
	metricsql.VisitAll(parsed, func(e metricsql.Expr) {
		if m, ok := e.(*metricsql.MetricExpr); ok {
			for _, filters := range m.LabelFilterss {
				for _, f := range filters {
					if f.Label == "__name__" {
						names = append(names, f.Value)
					}
				}
			}
		}
	})
	return names
}

// documented reads a file of docs/reference/metrics.
func documented(ts *testscript.TestScript, name string) []byte {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics", name))
	ts.Check(err)
	return data
}

// panels returns the expressions of the dashboard.
func panels(ts *testscript.TestScript) (exprs []string) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	ts.Check(json.Unmarshal(documented(ts, "grafana.json"), &dashboard))
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			ts.Fatalf("panel %q shows nothing", p.Title)
		}
		for _, t := range p.Targets {
			exprs = append(exprs, t.Expr)
		}
	}
	return exprs
}

// rules returns the expressions of the alerts.
func rules(ts *testscript.TestScript) (exprs []string) {
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	ts.Check(yaml.Unmarshal(documented(ts, "alerts.yaml"), &file))
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			exprs = append(exprs, r.Expr)
		}
	}
	return exprs
}
