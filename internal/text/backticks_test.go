package text_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/text"
)

func TestBackticks(t *testing.T) {
	for s, want := range map[string]int{"": 0, "plain": 0, "`code`": 1, "a ``` b ` c": 3, "`\n``": 2, "ä``ö": 2, "`\xff`": 1, "````": 4} {
		if got := text.Backticks(s); got != want {
			t.Errorf("%q: got %d, want %d", s, got, want)
		}
	}
}
