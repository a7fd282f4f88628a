package trellis_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

func TestNearest(t *testing.T) {
	names := []string{"a", "list", "logs", "plan", "retry", "validate"}
	for word, want := range map[string]string{
		"lsit": "list", "LIST": "list", "Retry": "retry", "log": "logs", "validat": "validate", "vaildate": "validate", "plane": "plan", "watch": "", "": "", "x": "",
	} {
		if got := trellis.Nearest(word, names); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
