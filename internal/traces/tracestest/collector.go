// Package tracestest is a collector of spans on loopback, which parses them as the OpenTelemetry collector does.
package tracestest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Collector receives spans.
type Collector struct {
	URL string // for all signals, to be used as OTEL_EXPORTER_OTLP_ENDPOINT
	// Answer may answer a request before it is processed, and reports whether it did. Nil: it never does.
	Answer func(w http.ResponseWriter, r *http.Request) bool

	t        *testing.T
	mu       sync.Mutex
	requests int
	resource map[string]any
	spans    map[string]Span
	times    map[string]int
}

// Span is a received span.
type Span struct {
	Trace, Parent, Name, Kind string
	Failed                    bool
	Attributes                map[string]any
	Seconds                   float64
}

// New starts a collector that is closed when the test ends.
func New(t *testing.T) *Collector {
	c := &Collector{t: t, spans: map[string]Span{}, times: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests++
	c.mu.Unlock()
	if c.Answer != nil && c.Answer(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client was killed
	}
	read, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(body)
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s %s: %v\n%s", r.Method, r.URL.Path, err, body)
	}
	c.addSpans(read)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"partialSuccess":{}}`)
}

func (c *Collector) addSpans(read ptrace.Traces) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range read.ResourceSpans().All() {
		c.resource = rs.Resource().Attributes().AsRaw()
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				got := Span{s.TraceID().String(), s.ParentSpanID().String(), s.Name(), s.Kind().String(), s.Status().Code().String() == "Error", s.Attributes().AsRaw(),
					s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()).Seconds()}
				id := s.SpanID().String()
				if was, twice := c.spans[id]; twice && fmt.Sprint(was) != fmt.Sprint(got) {
					c.t.Errorf("span %s is\n%v\nand was\n%v", id, got, was)
				}
				if s.TraceID() == (pcommon.TraceID{}) || s.SpanID() == (pcommon.SpanID{}) || got.Seconds < 0 {
					c.t.Errorf("span %s: %v", id, got)
				}
				c.spans[id] = got
				c.times[id]++
			}
		}
	}
}

// Requests returns the number of requests.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Resource returns the attributes of the resource in the last request.
func (c *Collector) Resource() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource
}

// Spans returns the received spans by id. again is how many were received more than once, always with the same content.
func (c *Collector) Spans() (spans map[string]Span, again int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans = map[string]Span{}
	for id, s := range c.spans {
		spans[id] = s
		if c.times[id] > 1 {
			again++
		}
	}
	return spans, again
}

// Tree returns the received trace as indented names, sorted by name below each span. It fails the test unless the trace is
// complete: one trace with one root, and every other span below an existing one.
func (c *Collector) Tree() string {
	c.t.Helper()
	spans, _ := c.Spans()
	below, trace, root := map[string][]string{}, "", ""
	for id, s := range spans {
		trace = cmp.Or(trace, s.Trace)
		if s.Trace != trace {
			c.t.Errorf("there are the traces %s and %s", trace, s.Trace)
		}
		if s.Parent == "" {
			if root != "" {
				c.t.Errorf("%s and %s have no parent", spans[root].Name, s.Name)
			}
			root = id
		} else if _, there := spans[s.Parent]; !there {
			c.t.Errorf("%s is below %s, which is not there", s.Name, s.Parent)
		}
		below[s.Parent] = append(below[s.Parent], id)
	}
	var write func(id string) string
	write = func(id string) string {
		var lines []string
		for _, child := range below[id] {
			lines = append(lines, "  "+strings.ReplaceAll(write(child), "\n", "\n  "))
		}
		slices.Sort(lines)
		return strings.Join(append([]string{spans[id].Name}, lines...), "\n")
	}
	return write(root)
}
