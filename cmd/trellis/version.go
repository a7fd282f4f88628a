package main

import (
	"fmt"
	"runtime/debug"
)

// version is what the Go toolchain stamped into the binary: a release, or a commit with its date.
// Code that was run without being installed has "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func (a *app) showVersion() error {
	_, err := fmt.Fprintln(a.Stdout, "trellis", version())
	return err
}
