package command

import (
	"runtime"
	"runtime/debug"
)

// Build is what the Go toolchain stamped into this binary.
type Build struct {
	Version  string `json:"version"`  // a release, or a commit with its date; "devel" in code that was run without being installed
	Commit   string `json:"commit"`   // "" if git did not provide it
	Date     string `json:"date"`     // of the commit
	Modified bool   `json:"modified"` // files differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// ReadBuild returns the build of this binary.
func ReadBuild() Build {
	b := Build{Version: "devel", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Version returns the version of this binary.
func Version() string { return ReadBuild().Version }
