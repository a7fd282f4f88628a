package trellis_test

import (
	"encoding/json"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edge C9: docs/reference/cli.md promises all fields of a problem, including those that are empty.
func TestProblemJSON(t *testing.T) {
	got, err := json.Marshal(trellis.Problem{File: "a", Message: "b"})
	if want := `{"file":"a","line":0,"column":0,"message":"b","hint":"","warning":false}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
