package metrics

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// labels are the values of a metric's labels; those that it doesn't have are "".
type labels [3]string

func toLabels(values []string) (l labels) {
	copy(l[:], values)
	return l
}

// counts are the values of a metric, by labels.
type counts map[labels]float64

func (c counts) add(n float64, values ...string) { c[toLabels(values)] += n }

// histogram counts observations in buckets.
type histogram struct {
	buckets []uint64 // number of observations in the bucket, not cumulative; bounds as in histograms
	count   uint64
	sum     float64
}

// histograms are the histograms of a metric, by labels.
type histograms struct {
	bounds   []float64
	byLabels map[labels]*histogram
}

func newHistograms(bounds []float64) histograms { return histograms{bounds, map[labels]*histogram{}} }

func (h histograms) observe(v float64, values ...string) {
	at := toLabels(values)
	if h.byLabels[at] == nil {
		h.byLabels[at] = &histogram{buckets: make([]uint64, len(h.bounds))}
	}
	one := h.byLabels[at]
	if i, _ := slices.BinarySearch(h.bounds, v); i < len(h.bounds) {
		one.buckets[i]++
	}
	one.count++
	one.sum += v
}

// page is a text in Prometheus' text format, version 0.0.4. No library is used, since the existing one would link protocol
// buffers into every command. The tests parse the output with Prometheus' own library.
type page struct{ bytes.Buffer }

func (p *page) writeValue(m Metric, v float64, values ...string) {
	p.writeHeader(m)
	p.writeSample(m.Name, m.Labels, toLabels(values), v)
}

// writeCounts writes a metric with its values. A metric without values is omitted, as Prometheus requires.
func (p *page) writeCounts(m Metric, c counts) {
	if len(c) == 0 {
		return
	}
	p.writeHeader(m)
	for _, at := range slices.SortedFunc(maps.Keys(c), compareLabels) {
		p.writeSample(m.Name, m.Labels, at, c[at])
	}
}

func (p *page) writeHistograms(m Metric, h histograms) {
	if len(h.byLabels) == 0 {
		return
	}
	p.writeHeader(m)
	names := append(slices.Clone(m.Labels), "le")
	for _, at := range slices.SortedFunc(maps.Keys(h.byLabels), compareLabels) {
		one, sum := h.byLabels[at], uint64(0)
		bucket := func(le string) {
			with := at
			with[len(m.Labels)] = le
			p.writeSample(m.Name+"_bucket", names, with, float64(sum))
		}
		for i, bound := range h.bounds {
			sum += one.buckets[i]
			bucket(formatNumber(bound))
		}
		sum = one.count
		bucket("+Inf")
		p.writeSample(m.Name+"_sum", m.Labels, at, one.sum)
		p.writeSample(m.Name+"_count", m.Labels, at, float64(one.count))
	}
}

func compareLabels(a, b labels) int { return slices.CompareFunc(a[:], b[:], cmp.Compare[string]) }

func (p *page) writeHeader(m Metric) {
	p.WriteString("# HELP " + m.Name + " " + m.Help + "\n# TYPE " + m.Name + " " + string(m.Kind) + "\n")
}

func (p *page) writeSample(name string, names []string, values labels, v float64) {
	p.WriteString(name)
	for i, label := range names {
		p.WriteString([]string{"{", ","}[min(i, 1)] + label + `="` + escapeValue(values[i]) + `"`)
	}
	if len(names) > 0 {
		p.WriteByte('}')
	}
	p.WriteString(" " + formatNumber(v) + "\n")
}

// escapeValue escapes a label's value for use in quotes.
func escapeValue(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
