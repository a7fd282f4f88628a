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

func labelled(values []string) (l labels) {
	copy(l[:], values)
	return l
}

// counts are the values of a metric, by labels.
type counts map[labels]float64

func (c counts) add(n float64, values ...string) { c[labelled(values)] += n }

// histogram counts observations in buckets.
type histogram struct {
	in  []uint64 // number of observations in the bucket, not cumulative; bounds as in histograms
	n   uint64
	sum float64
}

// histograms are the histograms of a metric, by labels.
type histograms struct {
	bounds []float64
	by     map[labels]*histogram
}

func newHistograms(bounds []float64) histograms { return histograms{bounds, map[labels]*histogram{}} }

func (h histograms) observe(v float64, values ...string) {
	at := labelled(values)
	if h.by[at] == nil {
		h.by[at] = &histogram{in: make([]uint64, len(h.bounds))}
	}
	one := h.by[at]
	if i, _ := slices.BinarySearch(h.bounds, v); i < len(h.bounds) {
		one.in[i]++
	}
	one.n++
	one.sum += v
}

// page is a text in Prometheus' text format, version 0.0.4. No library is used, since the existing one would link protocol
// buffers into every command. The tests parse the output with Prometheus' own library.
type page struct{ bytes.Buffer }

func (p *page) value(m Metric, v float64, values ...string) {
	p.head(m)
	p.sample(m.Name, m.Labels, labelled(values), v)
}

// each writes a metric with its values. A metric without values is omitted, as Prometheus requires.
func (p *page) each(m Metric, c counts) {
	if len(c) == 0 {
		return
	}
	p.head(m)
	for _, at := range slices.SortedFunc(maps.Keys(c), compare) {
		p.sample(m.Name, m.Labels, at, c[at])
	}
}

func (p *page) histograms(m Metric, h histograms) {
	if len(h.by) == 0 {
		return
	}
	p.head(m)
	names := append(slices.Clone(m.Labels), "le")
	for _, at := range slices.SortedFunc(maps.Keys(h.by), compare) {
		one, sum := h.by[at], uint64(0)
		bucket := func(le string) {
			with := at
			with[len(m.Labels)] = le
			p.sample(m.Name+"_bucket", names, with, float64(sum))
		}
		for i, bound := range h.bounds {
			sum += one.in[i]
			bucket(number(bound))
		}
		sum = one.n
		bucket("+Inf")
		p.sample(m.Name+"_sum", m.Labels, at, one.sum)
		p.sample(m.Name+"_count", m.Labels, at, float64(one.n))
	}
}

func compare(a, b labels) int { return slices.CompareFunc(a[:], b[:], cmp.Compare[string]) }

func (p *page) head(m Metric) {
	p.WriteString("# HELP " + m.Name + " " + m.Help + "\n# TYPE " + m.Name + " " + string(m.Kind) + "\n")
}

func (p *page) sample(name string, names []string, values labels, v float64) {
	p.WriteString(name)
	for i, label := range names {
		p.WriteString([]string{"{", ","}[min(i, 1)] + label + `="` + escaped(values[i]) + `"`)
	}
	if len(names) > 0 {
		p.WriteByte('}')
	}
	p.WriteString(" " + number(v) + "\n")
}

// escaped escapes a label's value for use in quotes.
func escaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
