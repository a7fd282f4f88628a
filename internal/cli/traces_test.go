package cli

import (
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trellis-tasks/trellis/internal/traces/tracestest"
)

// collecting holds the collectors of spans, by script.
type collecting struct {
	*testing.T
	by sync.Map
}

// begin is the script command "collector": from then on trellis sends its spans to a collector.
func (c *collecting) begin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: collector")
	}
	to := tracestest.New(c.T)
	c.by.Store(ts, to)
	ts.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
}

// has is the script command "collected NAME...": the collector has one complete trace with spans of these names.
func (c *collecting) has(ts *testscript.TestScript, neg bool, args []string) {
	to, ok := c.by.Load(ts)
	if neg || !ok {
		ts.Fatalf("usage: collected NAME..., after collector")
	}
	tree := to.(*tracestest.Collector).Tree()
	for _, name := range args {
		if !strings.Contains("\n"+tree+"\n", name+"\n") {
			ts.Fatalf("there is no span %s in\n%s", name, tree)
		}
	}
}
