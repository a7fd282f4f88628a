package agentstest_test

import (
	"flag"
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
	if err := flag.Set("test.parallel", "4"); err != nil { // the tests wait for processes; the flag -parallel overrides this
		panic(err)
	}
	os.Exit(m.Run())
}
