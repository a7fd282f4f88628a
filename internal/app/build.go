package app

import (
	"fmt"
	"os"
	"runtime/debug"
)

// build names the program that a run was begun by: the same only for the same code. What was built of
// changed files is told apart by when that was.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	clean := false
	for _, s := range info.Settings {
		clean = clean || s.Key == "vcs.modified" && s.Value == "false"
	}
	id := info.Main.Version + " " + info.GoVersion
	if path, err := os.Executable(); err == nil && !clean {
		if st, err := os.Stat(path); err == nil {
			id += fmt.Sprintf(" %d", st.ModTime().UnixNano())
		}
	}
	return id
}
