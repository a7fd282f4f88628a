package trellis_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The advice for a code applies to all its failures: if only some involve a hook or an answer, it is to read the message first.
func TestTodoHoldsForAllOfACode(t *testing.T) {
	for _, code := range []trellis.Code{trellis.CommitFailed, trellis.AgentProtocol} {
		if info, _ := code.Info(); !strings.HasPrefix(info.Todo, "read the message") {
			t.Errorf("%s: %s", code, info.Todo)
		}
	}
}
