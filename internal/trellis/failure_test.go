package trellis_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// What to do holds for all that fails with a code: where only some of it ran a hook, or kept an answer, the message is to be read first.
func TestTodoHoldsForAllOfACode(t *testing.T) {
	for _, code := range []trellis.Code{trellis.CommitFailed, trellis.AgentProtocol} {
		if info, _ := code.Info(); !strings.HasPrefix(info.Todo, "read the message") {
			t.Errorf("%s: %s", code, info.Todo)
		}
	}
}
