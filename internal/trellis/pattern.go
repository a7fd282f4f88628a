package trellis

import (
	"regexp"
	"sync"
)

// Pattern returns a function that compiles a regular expression on its first call: a process needs only few of them.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
