package roff_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/roff"
)

// What roff would take for its own comes out as it is, and a command that is too long goes on in the next line, but not within
// quotes.
func TestPage(t *testing.T) {
	p := roff.NewPage("a-b", "2026-02-01", "a v1")
	p.Name("a-b", `uses \n and "it's"`)
	p.Section("Examples")
	p.Text(".hidden is ≥ 1\n'quoted'\n\nanother")
	p.Commands([]string{
		"a --one 'a text that is so long that it goes on behind the end of the line' --two " + strings.Repeat("x", 40),
		"a --one " + strings.Repeat("y", 60) + "   # what it does",
	})
	p.Item("-x", "an x")
	want := `.TH A\-B 1 2026-02-01 "a v1" "Trellis Manual"
.nh
.ad l
.SH NAME
a\-b \- uses \en and \(dqit\(aqs\(dq
.SH EXAMPLES
\&.hidden is \[u2265] 1
\(aqquoted\(aq
.PP
another
.PP
.nf
a \-\-one \e
    \(aqa text that is so long that it goes on behind the end of the line\(aq \e
    \-\-two xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
# what it does
a \-\-one yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy
.fi
.TP
\fB\-x\fR
an x
`
	if got := p.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
