package trellis

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is asked for first: of all that there are a process needs few.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
