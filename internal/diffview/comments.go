package diffview

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
)

// Side is one of the two that a difference has.
type Side string

const (
	Before Side = "old" // as it was
	Now    Side = "new" // with the change
)

// Comment is what a person says about a line.
type Comment struct {
	File  string `json:"file"`
	Side  Side   `json:"side"`
	Line  int    `json:"line"`
	Text  string `json:"text"`
	Quote string `json:"-"` // the line, by Find
}

// Find takes the line that a comment is about from a file, if it is there.
func (c *Comment) Find(f *File) bool {
	if c.File != f.Name() || c.Line < 1 {
		return false
	}
	for i := range f.Hunks {
		for _, l := range f.Hunks[i].Lines {
			if c.Side == Before && l.Old == c.Line || c.Side == Now && l.New == c.Line {
				c.Quote = l.Text
				return true
			}
		}
	}
	return false
}

// Place says where a comment is.
func (c *Comment) Place() string { return fmt.Sprintf("%s:%d (%s)", named(c.File), c.Line, c.Side) }

// maxQuote is how much of a line is quoted, in bytes.
const maxQuote = 400

// Feedback is what a person says in general and about lines, as a text for whoever goes on with the work. Lines and comments
// stand between fences that nothing in them closes.
func Feedback(general string, comments []*Comment) string {
	var b strings.Builder
	if general = strings.TrimSpace(general); general != "" {
		b.WriteString(general + "\n")
	}
	for _, c := range comments {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "Comment on %s\nThe line:\n%sThe comment:\n%s", c.Place(), fenced(text.Cut(c.Quote, maxQuote)), fenced(c.Text))
	}
	return b.String()
}

// named is a file's name in one line, as it is unless that would be read as something else.
func named(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` || strings.TrimSpace(name) != name {
		return q
	}
	return name
}

// fenced is a text between lines of more backticks than it has in a row anywhere.
func fenced(s string) string {
	fence := strings.Repeat("`", max(3, text.Backticks(s)+1))
	return fence + "\n" + s + "\n" + fence + "\n"
}
