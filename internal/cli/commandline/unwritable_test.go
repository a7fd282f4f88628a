package commandline_test

import (
	"errors"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/commandline"
)

// full is an output that can't be written.
type full struct{ writes int }

func (f *full) Write([]byte) (int, error) {
	f.writes++
	return 0, errors.New("no space left on device")
}

// If help can't be written, that is an error. Help is written in one piece.
func TestHelpThatCannotBeWritten(t *testing.T) {
	var out full
	if err := commandline.ShowHelp(&out, testTree()); err == nil || out.writes != 1 {
		t.Errorf("got %v after %d writes", err, out.writes)
	}
}
