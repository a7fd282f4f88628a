package app

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

func TestMain(m *testing.M) { runnertest.Main(m, nil) }
