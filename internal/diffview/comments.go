package diffview

import (
	"fmt"
	"strconv"
	"strings"
)

// Side is one of the two that a difference has.
type Side string

const (
	Old Side = "old" // before the change
	New Side = "new" // with it
)

// Comment is what a person says about a line.
type Comment struct {
	File  string `json:"file"`
	Side  Side   `json:"side"`
	Line  int    `json:"line"`
	Quote string `json:"quote"` // the line
	Text  string `json:"text"`
}

// Feedback is what a person says in general and about lines, as a text for whoever goes on with the work. Lines and comments
// stand between fences that nothing in them can close.
func Feedback(general string, comments []Comment) string {
	var b strings.Builder
	if general = strings.TrimSpace(general); general != "" {
		b.WriteString(general + "\n")
	}
	for _, c := range comments {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s%s:%d (%s)\n%s%s%s%s", about, named(c.File), c.Line, c.Side, quoted, fenced(c.Quote), comment, fenced(c.Text))
	}
	return b.String()
}

// Words of a feedback.
const (
	about   = "Comment on "
	quoted  = "The line:\n"
	comment = "The comment:\n"
)

// named is a file's name in one line, as it is unless that would be read as something else.
func named(name string) string {
	if q := strconv.Quote(name); q != `"`+name+`"` || strings.TrimSpace(name) != name {
		return q
	}
	return name
}

// fenced is a text between lines of more backticks than it has anywhere.
func fenced(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + s + "\n" + fence + "\n"
}

// ParseFeedback takes a text of Feedback apart. What is no comment is general.
func ParseFeedback(text string) (general string, comments []Comment) {
	rest, first := text, true
	for {
		at := 0
		if !first || !strings.HasPrefix(rest, about) {
			at = strings.Index(rest, "\n"+about)
			if at < 0 {
				break
			}
			at++
		}
		c, after, ok := parseComment(rest[at:])
		if !ok { // a line that a person began like this
			general += rest[:at+len(about)]
			rest, first = rest[at+len(about):], false
			continue
		}
		general += rest[:at]
		comments = append(comments, c)
		rest, first = after, true
	}
	return strings.TrimSpace(general + rest), comments
}

func parseComment(text string) (c Comment, rest string, ok bool) {
	place, rest, _ := strings.Cut(strings.TrimPrefix(text, about), "\n")
	side := strings.LastIndex(place, " (")
	colon := strings.LastIndexByte(place[:max(side, 0)], ':')
	if side < 0 || colon < 0 || !strings.HasSuffix(place, ")") {
		return c, "", false
	}
	c.File, c.Side = place[:colon], Side(place[side+2:len(place)-1])
	if name, err := strconv.Unquote(c.File); err == nil && strings.HasPrefix(c.File, `"`) {
		c.File = name
	}
	var err error
	if c.Line, err = strconv.Atoi(place[colon+1 : side]); err != nil {
		return c, "", false
	}
	if c.Quote, rest, ok = unfenced(rest, quoted); ok {
		c.Text, rest, ok = unfenced(rest, comment)
	}
	return c, strings.TrimPrefix(rest, "\n"), ok
}

// unfenced is the text between the fences that follow a word.
func unfenced(text, word string) (s, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, word)
	fence, body, found := strings.Cut(text, "\n")
	if !ok || !found || len(fence) < 3 || strings.Trim(fence, "`") != "" {
		return "", "", false
	}
	s, rest, ok = strings.Cut("\n"+body, "\n"+fence+"\n")
	return strings.TrimPrefix(s, "\n"), rest, ok
}
