// Package tracestest is a collector of spans on loopback, which reads them as the OpenTelemetry collector does.
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

// Collector takes spans.
type Collector struct {
	URL string // of all signals, as OTEL_EXPORTER_OTLP_ENDPOINT names it
	// Answer may answer a request before it is looked at, and says whether it did. Nil: it does not.
	Answer func(w http.ResponseWriter, r *http.Request) bool

	t        *testing.T
	mu       sync.Mutex
	requests int
	resource map[string]any
	spans    map[string]Span
	times    map[string]int
}

// Span is a span as it was read.
type Span struct {
	Trace, Parent, Name, Kind string
	Failed                    bool
	Attributes                map[string]any
	Seconds                   float64
}

// New serves a collector until the test ends.
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
		return // who sent it was killed
	}
	read, err := new(ptrace.JSONUnmarshaler).UnmarshalTraces(body)
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s %s: %v\n%s", r.Method, r.URL.Path, err, body)
	}
	c.take(read)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"partialSuccess":{}}`)
}

func (c *Collector) take(read ptrace.Traces) {
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

// Requests is how many requests came.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Resource are the attributes of who sent spans last.
func (c *Collector) Resource() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource
}

// Spans are those that came, by their ids; again is how many came more than once, each as it was the first time.
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

// Tree is the trace that came as indented names, children in the order of their names, and fails the test unless it is whole: one
// trace, one root, each span below one that is there.
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
