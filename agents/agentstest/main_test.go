package agentstest_test

import (
	"os"
	"testing"

	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func TestMain(m *testing.M) {
	if part := os.Getenv(acpPart); part != "" {
		playACP(part)
		return
	}
	agentstest.Offline()
	gittest.HearSignals()
	gittest.OnDisk()
	os.Exit(m.Run())
}
