package board_test

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A scraper with the key gets the numbers of all tasks in the format of Prometheus.
func TestNumbersForAScraper(t *testing.T) {
	w := newWorld(t, nil)
	w.o.Version = "v1.2.3"
	w.planned("02-01-hello")
	w.serve()
	code, text := w.ask("GET", "/metrics", nil)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	there, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil || code != 200 {
		t.Fatalf("%d, %v\n%s", code, err, text)
	}
	if got := there["trellis_tasks_needing_person"].GetMetric()[0].GetGauge().GetValue(); got != 1 {
		t.Errorf("%v tasks need a person, want the one that waits for approval", got)
	}
	if !strings.Contains(text, `trellis_build_info{version="v1.2.3"`) {
		t.Errorf("the version is not told:\n%s", text)
	}
}
