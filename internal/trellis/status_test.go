package trellis_test

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A parsed status does not keep the text of its whole file in memory.
func TestParseStatusKeepsNoFile(t *testing.T) {
	for _, want := range trellis.Statuses {
		file := strings.Repeat("x", 1000) + string(want)
		text := file[1000:]
		got, err := trellis.ParseStatus(text)
		if got != want || err != nil || unsafe.StringData(string(got)) == unsafe.StringData(text) {
			t.Errorf("%s: got %q, %v, or a part of the file", want, got, err)
		}
	}
}

func TestStatusInWords(t *testing.T) {
	for s, want := range map[trellis.Status]string{trellis.Review: "in review", trellis.Planning: "in planning", trellis.InProgress: "in progress", trellis.Waiting: "waiting", trellis.Completed: "completed"} {
		if got := s.InWords(); got != want {
			t.Errorf("%s: got %q, want %q", s, got, want)
		}
	}
}
