package proc_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/proc"
)

func TestCapped(t *testing.T) {
	tests := []struct {
		limit     int
		in, want  string
		wantWrite int
	}{
		{10, "", "", 0},
		{10, "0123456789", "0123456789", 10},
		{10, "0123456789a", "01234\n[... 1 bytes left out ...]\n6789a", 11},
		{3, "abcdef", "a\n[... 3 bytes left out ...]\nef", 6},
		{0, "abc", "\n[... 3 bytes left out ...]\n", 3},
		{8, "äöüßäöü", "äö\n[... 6 bytes left out ...]\nöü", 14},
		{6, "äöüßäöü", "ä\n[... 10 bytes left out ...]\nü", 14},
	}
	for _, tt := range tests {
		for size := 1; size <= len(tt.in)+1; size++ { // any split gives the same result
			c := proc.NewCapped(tt.limit)
			for data := []byte(tt.in); len(data) > 0; {
				n := min(size, len(data))
				if got, err := c.Write(data[:n]); got != n || err != nil {
					t.Fatalf("got %d, %v, want %d", got, err, n)
				}
				data = data[n:]
			}
			if got := c.String(); got != tt.want {
				t.Errorf("limit %d, %q in %ds: got %q, want %q", tt.limit, tt.in, size, got, tt.want)
			}
			if c.Cut() != (tt.wantWrite > tt.limit) {
				t.Errorf("%q: got cut %v", tt.in, c.Cut())
			}
		}
	}
}

func FuzzCapped(f *testing.F) {
	f.Add(10, 3, "some text with äöü in it")
	f.Add(0, 1, "x")
	f.Add(7, 100, strings.Repeat("日本語", 50))
	f.Fuzz(func(t *testing.T, limit, size int, in string) {
		limit, size = limit&0xff, size&0x3f+1
		c := proc.NewCapped(limit)
		for i := 0; i < len(in); i += size {
			c.Write([]byte(in[i:min(i+size, len(in))]))
		}
		got := c.String()
		if !c.Cut() {
			if got != in {
				t.Errorf("nothing cut: got %q, want %q", got, in)
			}
			return
		}
		var n int
		i := strings.LastIndex(got, "\n[... ")
		if i < 0 || !strings.HasPrefix(in, got[:min(i, limit/2)]) {
			t.Fatalf("got %q of %q", got, in)
		}
		if _, err := fmt.Sscanf(got[i:], "\n[... %d bytes", &n); err != nil {
			t.Fatal(err)
		}
		if kept := len(in) - n; kept > limit || kept < limit-6 && utf8.ValidString(in) {
			t.Errorf("kept %d of %d", kept, limit)
		}
		if utf8.ValidString(in) && !utf8.ValidString(got) {
			t.Errorf("%q is not text", got)
		}
	})
}
