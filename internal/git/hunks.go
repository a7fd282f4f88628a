package git

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Hunk is a run of consecutive lines that were added to a file.
type Hunk struct {
	Path  string
	First int    // number of the first line, from 1
	Text  string // the lines; those of a binary file contain zero bytes
	Cut   bool   // Text is only its beginning
}

// patchOptions holds the options of a patch that shows everything added, whatever attributes and settings say.
var patchOptions = []string{"-p", "--unified=0", "--inter-hunk-context=0", "--text", "--no-ext-diff", "--no-textconv", "--no-renames",
	"--no-color", "--ignore-submodules=all", "--src-prefix=a/", "--dst-prefix=b/"}

// patchParser parses a patch that is written to it.
type patchParser struct {
	each             func(Hunk)
	maxBytes         int
	line             []byte // the current, incomplete line
	lineCut          bool   // line was cut
	path             string
	bytesLeft        int // bytes that may still be kept of the file
	oldLeft, newLeft int // lines of the hunk that are still to come
	hunk             Hunk
	text             []byte
	err              error
}

func (p *patchParser) Write(data []byte) (int, error) {
	n := len(data)
	for {
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		keep := part[:min(len(part), max(p.maxBytes+1-len(p.line), 0))] // one more for the + before the text
		p.lineCut = p.lineCut || len(keep) < len(part)
		p.line = append(p.line, keep...)
		if !ended {
			return n, p.err
		}
		p.parseLine(p.line)
		p.line, p.lineCut, data = p.line[:0], false, rest
	}
}

func (p *patchParser) end() {
	if p.hunk.First > 0 {
		p.hunk.Text = string(p.text)
		p.each(p.hunk)
	}
	p.hunk, p.text = Hunk{}, p.text[:0]
}

func (p *patchParser) parseLine(line []byte) {
	if p.oldLeft+p.newLeft > 0 {
		p.parseHunkLine(line)
		return
	}
	if name, ok := bytes.CutPrefix(line, []byte("+++ ")); ok {
		p.end()
		p.bytesLeft = p.maxBytes
		p.path, p.err = headerPath(string(name))
		return
	}
	if !bytes.HasPrefix(line, []byte("@@ -")) {
		return
	}
	p.end()
	var first int
	first, p.oldLeft, p.newLeft = parseHunkHeader(string(line))
	if p.newLeft > 0 {
		p.hunk = Hunk{Path: p.path, First: first}
	}
}

func (p *patchParser) parseHunkLine(line []byte) {
	switch {
	case len(line) == 0 || line[0] == '\\': // no newline at the end of the file
	case line[0] == '-':
		p.oldLeft--
	case line[0] == '+':
		p.newLeft--
		keep := line[1:][:min(len(line)-1, p.bytesLeft)]
		p.hunk.Cut = p.hunk.Cut || p.lineCut || len(keep) < len(line)-1
		p.text = append(append(p.text, keep...), '\n')
		p.bytesLeft -= len(keep)
	}
}

// headerPath returns the path behind +++, which git quotes if it contains unusual characters.
func headerPath(name string) (string, error) {
	name = strings.TrimSuffix(name, "\t")
	if strings.HasPrefix(name, `"`) {
		unquoted, err := strconv.Unquote(name)
		if err != nil {
			return "", fmt.Errorf("what is the path %s", name)
		}
		name = unquoted
	}
	return strings.TrimPrefix(name, "b/"), nil
}

// parseHunkHeader parses @@ -old,lines +new,lines @@: the number of the first new line, and the numbers of old and new lines.
func parseHunkHeader(line string) (first, old, new int) {
	parts := strings.Fields(line)
	if len(parts) < 3 {
		return 0, 0, 0
	}
	_, old = parseRange(parts[1])
	first, new = parseRange(parts[2])
	return first, old, new
}

func parseRange(s string) (first, lines int) {
	at, n, several := strings.Cut(s[1:], ",")
	first, _ = strconv.Atoi(at)
	if lines = 1; several {
		lines, _ = strconv.Atoi(n)
	}
	return first, lines
}
