// Package frontmatter splits off the YAML that a page of Markdown may begin with, between two lines of three dashes.
package frontmatter

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Cut returns the YAML of a page, with the dashes above it, so that its line numbers are those of the page, and the offset of
// the rest. A page that does not begin with three dashes has no YAML. fault is set if one of keys occurs at the beginning where
// it would not be read; a page without those keys may begin in any way.
func Cut(page []byte, keys []string) (yaml []byte, rest int, fault *trellis.Problem) {
	begin := len(page) - len(bytes.TrimPrefix(page, []byte("\ufeff")))
	for line, at := 1, begin; at < len(page); line++ {
		words, _, _ := bytes.Cut(page[at:], []byte("\n"))
		next := min(at+len(words)+1, len(page))
		switch {
		case line == 1 && !holds(words, "---"):
			return nil, begin, outside(page[begin:], keys)
		case line > 1 && holds(words, "---"):
			return page[begin:at], next, nil
		case line > 1 && holds(words, "...") && said(page[begin:at], keys) != nil:
			return nil, begin, &trellis.Problem{Line: line, Message: "the front matter is not ended by ...", Hint: "write three dashes in this line"}
		}
		at = next
	}
	return nil, begin, outside(page[begin:], keys)
}

// Wrong returns the problem for an error of decoding a page's YAML.
func Wrong(yaml []byte, err error) *trellis.Problem {
	line, message := text.YAMLError(err)
	line = min(max(line, 2), bytes.Count(yaml, []byte("\n"))) // the first line is dashes, and an unterminated construct is reported after the last line
	return &trellis.Problem{Line: line, Message: "front matter: " + message}
}

// holds reports whether a line consists of a mark, optionally followed by space.
func holds(line []byte, mark string) bool { return string(bytes.TrimRight(line, " \t\r")) == mark }

// outside returns the fault of a key at the beginning of a page without front matter.
func outside(page []byte, keys []string) *trellis.Problem {
	k := said(page, keys)
	switch {
	case k == nil:
		return nil
	case k.below == 1 && holds(bytes.SplitN(page, []byte("\n"), 2)[0], "---"):
		return &trellis.Problem{Line: 1, Message: "the front matter has no end", Hint: fmt.Sprintf("put a line of three dashes below %s", k.name)}
	case k.below == 0:
		return &trellis.Problem{Line: k.line, Message: k.name + " is not read, since there is no line of three dashes above it", Hint: "put one above it, as the first line of the file, and one below it"}
	}
	return &trellis.Problem{Line: k.below, Message: "this is not read as front matter", Hint: "make three dashes the first line of the file, with nothing before them, and end the front matter with three dashes"}
}

// key is a key at the beginning of a page.
type key struct {
	name  string
	line  int
	below int // the line of dashes above it, 0 if there is none
}

// said returns the first of keys that occurs before the page's text begins. Blank lines, headings and comments may precede it,
// and after dashes also other keys.
func said(page []byte, keys []string) *key {
	line, below, among := 0, 0, false
	for words := range strings.Lines(string(page)) {
		line++
		words = strings.TrimSpace(words)
		name, _, colon := strings.Cut(words, ":")
		name = strings.Trim(name, `"' `)
		rule := words != "" && strings.Trim(words, "-–—") == ""
		switch {
		case colon && slices.Contains(keys, name):
			return &key{name, line, below}
		case among && (rule || words == ""):
			return nil
		case rule:
			below = line
		case words == "" || strings.HasPrefix(words, "#") || strings.HasPrefix(words, "<!--"):
		case below == 0:
			return nil
		default:
			among = true
		}
	}
	return nil
}
