package runnertest

import (
	"os"
)

// soak reports whether tests are to take their full measure.
func Soak() bool { return os.Getenv("TRELLIS_SOAK") != "" }
