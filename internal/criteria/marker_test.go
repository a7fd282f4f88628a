package criteria

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// What is read without a closer look is read as it is with one.
func TestUsualMarkers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"-", "*", "+", " ", "  ", "\t", "\u00a0", "[ ]", "[x]", "[X]", "[", "]", "x", "a", "é", "1", ".", "(", ":"}
	usually := 0
	for range 40_000 {
		var b strings.Builder
		for range 1 + r.IntN(7) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		bare := strings.TrimSpace(b.String())
		if bare == "" || !marking(bare) {
			continue
		}
		got, ok := usual(bare)
		if want := closely(bare); ok && got != want {
			t.Fatalf("%q: got %+v, want %+v", bare, got, want)
		} else if ok {
			usually++
		}
	}
	if usually < 200 {
		t.Errorf("%d lines were usual", usually)
	}
}
