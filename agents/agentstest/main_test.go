package agentstest_test

import (
	"os"
	"testing"

	"github.com/trellis-tasks/trellis/agents/agentstest"
)

func TestMain(m *testing.M) {
	agentstest.Offline()
	os.Exit(m.Run())
}
