package text_test

import (
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"
)

// A number is rounded before its unit is chosen.
func TestUnits(t *testing.T) {
	for n, want := range map[int64][2]string{
		0:             {"0", "0 B"},
		999:           {"999", "999 B"},
		1000:          {"1.0k", "1.0 KB"},
		999_940:       {"999.9k", "999.9 KB"},
		999_960:       {"1.0M", "1.0 MB"},
		1_234_567:     {"1.2M", "1.2 MB"},
		999_960_000:   {"1000.0M", "1.0 GB"},
		5_000_000_000: {"5000.0M", "5.0 GB"},
	} {
		if got := [2]string{text.Tokens(n), text.Bytes(n)}; got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{9940 * time.Millisecond: "9.9s", 9960 * time.Millisecond: "10s", time.Minute: "1m0s"} {
		if got := text.Duration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

// A fault at the first byte is told from none.
func TestInvalidUTF8(t *testing.T) {
	for s, want := range map[string]int{"": -1, "a\ufffdb": -1, "\xffa": 0, "\x00": 0, "aü\xff": 3} {
		if got := text.InvalidUTF8(s); got != want {
			t.Errorf("%q: got %d, want %d", s, got, want)
		}
	}
}
