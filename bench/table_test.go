package main

import (
	"io"
	"strings"
	"testing"
)

// samples returns n to 1.
func samples(n int) (list []float64) {
	for i := range n {
		list = append(list, float64(n-i))
	}
	return list
}

func TestPercentile(t *testing.T) {
	for _, c := range []struct {
		n       int
		p, want float64
	}{{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {3, 50, 2}, {100, 50, 50}, {100, 99, 99}, {20, 99, 20}} {
		if got := (row{samples: samples(c.n)}).percentile(c.p); got != c.want {
			t.Errorf("p%g of %d: got %g, want %g", c.p, c.n, got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		p50, p99 float64
		want     string
		failed   bool
	}{
		{0, 0, "", false},
		{50, 0, "met", false},
		{50, 99, "met", false},
		{30, 0, "missed: 1.7× the target", false},
		{25, 0, "missed: 2.0× the target", false},
		{24, 0, "FAILED: 2.1× the target", true},
		{50, 40, "FAILED: 2.5× the target", true},
		{20, 99, "FAILED: 2.5× the target", true},
	} {
		r := row{samples: samples(100), p50: c.p50, p99: c.p99}
		if got := r.verdict(); got != c.want {
			t.Errorf("p50 < %g, p99 < %g: got %q, want %q", c.p50, c.p99, got, c.want)
		}
		if failed, err := table(io.Discard, []row{r, r}); failed > 0 != c.failed || failed == 1 || err != nil {
			t.Errorf("p50 < %g, p99 < %g: got %d failed, %v", c.p50, c.p99, failed, err)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	_, err := table(&out, []row{{name: "a thing", unit: "ms", samples: samples(100), p50: 60, p99: 120}, {name: "beside it", unit: "×", samples: []float64{1.25}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"measure N p50 p99 unit target verdict", "a thing 100 50.00 99.00 ms p50 < 60, p99 < 120 met", "beside it 1 1.25 1.25 ×"}
	for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if got := strings.Join(strings.Fields(line), " "); got != want[i] {
			t.Errorf("got %q, want %q", got, want[i])
		}
	}
}
