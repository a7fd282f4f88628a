package diffview

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
)

// Side is one of the two sides of a diff.
type Side string

const (
	Before Side = "old" // before the change
	Now    Side = "new" // after the change
)

// Comment is a person's comment on a line.
type Comment struct {
	File  string `json:"file"`
	Side  Side   `json:"side"`
	Line  int    `json:"line"`
	Text  string `json:"text"`
	Quote string `json:"-"` // the text of the line; set by Find
}

// Locate looks up the line of the comment in a file, sets Quote, and reports whether it was found.
func (c *Comment) Locate(f *File) bool {
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

// Place returns the position of the comment for display.
func (c *Comment) Place() string { return fmt.Sprintf("%s:%d (%s)", quoteName(c.File), c.Line, c.Side) }

// maxQuote is how much of a line is quoted, in bytes.
const maxQuote = 400

// Feedback returns a person's general feedback and comments on lines as a text for whoever continues the work. Lines and
// comments are fenced such that nothing in them closes the fence.
func Feedback(general string, comments []*Comment) string {
	var b strings.Builder
	if general = strings.TrimSpace(general); general != "" {
		b.WriteString(general + "\n")
	}
	for _, c := range comments {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "Comment on %s\nThe line:\n%sThe comment:\n%s", c.Place(), fencedText(text.Cut(c.Quote, maxQuote)), fencedText(c.Text))
	}
	return b.String()
}

// quoteName returns a file's name on one line, quoted if it could be misread otherwise.
func quoteName(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` || strings.TrimSpace(name) != name {
		return q
	}
	return name
}

// fencedText returns a text between fences that have more backticks than any run of them in the text.
func fencedText(s string) string {
	fence := strings.Repeat("`", max(3, text.Backticks(s)+1))
	return fence + "\n" + s + "\n" + fence + "\n"
}
