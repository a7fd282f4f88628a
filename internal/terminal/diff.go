package terminal

import (
	"bytes"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Diff returns the unified diff from one text to another, both of the file name; "" if they are the
// same. Control characters are made visible.
func Diff(name, from, to string) string {
	_, text, _ := strings.Cut(string(diff.Diff("a/"+name, []byte(from), "b/"+name, []byte(to))), "\n") // the first line names the diff command
	return trellis.Visible(strings.ReplaceAll(text, "\r\n", "\n"))
}

// DiffWriter writes what git prints of a difference, a patch or a list of files, for a terminal:
// with control characters made visible, and in colours. Close writes a last line that has no end.
type DiffWriter struct {
	W      io.Writer
	Colour bool

	partial []byte // a line whose end has not come yet
	inHunk  bool   // the next line is text of a file
}

func (d *DiffWriter) Write(p []byte) (int, error) {
	d.partial = append(d.partial, p...)
	var out strings.Builder
	for {
		end := bytes.IndexByte(d.partial, '\n')
		if end < 0 {
			break
		}
		out.WriteString(d.line(string(d.partial[:end])) + "\n")
		d.partial = d.partial[end+1:]
	}
	if _, err := io.WriteString(d.W, out.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the line that is held.
func (d *DiffWriter) Close() error {
	if len(d.partial) == 0 {
		return nil
	}
	_, err := io.WriteString(d.W, d.line(string(d.partial)))
	d.partial = nil
	return err
}

// line returns a line, without its end, in its colour.
func (d *DiffWriter) line(s string) string {
	s = trellis.Visible(s)
	if !d.Colour || s == "" {
		return s
	}
	if strings.HasPrefix(s, "diff ") {
		d.inHunk = false
	}
	switch {
	case strings.HasPrefix(s, "@@ "):
		d.inHunk = true
		at := strings.Index(s[2:], "@@") + len("@@@@")
		if at < len("@@@@") {
			at = len(s)
		}
		return Paint(s[:at], "36", true) + s[at:]
	case d.inHunk && s[0] == '+':
		return Paint(s, "32", true)
	case d.inHunk && s[0] == '-':
		return Paint(s, "31", true)
	case d.inHunk:
		return s
	case s[0] == ' ':
		return colourBars(s)
	}
	return Paint(s, "1", true)
}

// colourBars colours a line of a list of files: how much was added and deleted in each.
func colourBars(s string) string {
	at := len(strings.TrimRight(s, "+-"))
	if at == len(s) || !strings.Contains(s[:at], " | ") {
		return s
	}
	added := strings.TrimRight(s[at:], "-")
	return s[:at] + Paint(added, "32", true) + Paint(s[at+len(added):], "31", true)
}
