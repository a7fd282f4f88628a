//go:build !linux

package agentstest

import (
	"fmt"
	"os"
)

// Offline would keep agent programs off the network; this system has no way to do that.
func Offline() { fmt.Fprintln(os.Stderr, "agentstest: the agents could reach a network") }
