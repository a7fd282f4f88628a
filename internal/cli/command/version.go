package command

import "runtime/debug"

// Version is what the Go toolchain stamped into the binary: a release, or a commit with its date.
// Code that was run without being installed has "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
