package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is one measurement: its samples and targets.
type row struct {
	name       string
	unit       string // ms, ×, MB, …
	samples    []float64
	p50, p99   float64 // upper limits; 0: none
	skipReason string  // why it was not measured; "": it was
}

// tolerance is by what factor a target may be missed before bench fails, since machines differ.
const tolerance = 2

// percentile returns the smallest sample that is not below p percent of all samples.
func (r row) percentile(p float64) float64 {
	sorted := slices.Sorted(slices.Values(r.samples))
	return sorted[max(0, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}

// excess returns the largest ratio of a percentile to its target: above 1 a target is missed. 0 without targets.
func (r row) excess() float64 {
	worst := 0.0
	for p, target := range map[float64]float64{50: r.p50, 99: r.p99} {
		if target > 0 {
			worst = max(worst, r.percentile(p)/target)
		}
	}
	return worst
}

func (r row) failed() bool { return r.excess() > tolerance }

func (r row) verdict() string {
	switch e := r.excess(); {
	case e == 0:
		return ""
	case r.failed():
		return fmt.Sprintf("FAILED: %.1f× the target", e)
	case e > 1:
		return fmt.Sprintf("missed: %.1f× the target", e)
	}
	return "met"
}

func (r row) target() string {
	var list []string
	if r.p50 > 0 {
		list = append(list, fmt.Sprintf("p50 < %g", r.p50))
	}
	if r.p99 > 0 {
		list = append(list, fmt.Sprintf("p99 < %g", r.p99))
	}
	return strings.Join(list, ", ")
}

// table prints the rows and returns how many of them failed.
func table(w io.Writer, rows []row) (failed int, err error) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "measure\tN\tp50\tp99\tunit\ttarget\tverdict\t\n")
	for _, r := range rows {
		if r.skipReason != "" {
			fmt.Fprintf(t, "%s\t0\t\t\t\t\tnot measured: %s\t\n", r.name, r.skipReason)
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%s\t%s\t%s\t\n", r.name, len(r.samples), r.percentile(50), r.percentile(99), r.unit, r.target(), r.verdict())
		if r.failed() {
			failed++
		}
	}
	return failed, t.Flush()
}
