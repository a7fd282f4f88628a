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

// raw holds the options of a patch that shows everything added, whatever attributes and settings say.
var raw = []string{"-p", "--unified=0", "--inter-hunk-context=0", "--text", "--no-ext-diff", "--no-textconv", "--no-renames",
	"--no-color", "--ignore-submodules=all", "--src-prefix=a/", "--dst-prefix=b/"}

// patch parses a patch that is written to it.
type patch struct {
	each     func(Hunk)
	most     int
	line     []byte // the current, incomplete line
	long     bool   // line was cut
	path     string
	left     int // bytes that may still be kept of the file
	old, new int // lines of the hunk that are still to come
	now      Hunk
	text     []byte
	wrong    error
}

func (p *patch) Write(data []byte) (int, error) {
	n := len(data)
	for {
		part, rest, ended := bytes.Cut(data, []byte{'\n'})
		keep := part[:min(len(part), max(p.most+1-len(p.line), 0))] // one more for the + before the text
		p.long = p.long || len(keep) < len(part)
		p.line = append(p.line, keep...)
		if !ended {
			return n, p.wrong
		}
		p.take(p.line)
		p.line, p.long, data = p.line[:0], false, rest
	}
}

func (p *patch) end() {
	if p.now.First > 0 {
		p.now.Text = string(p.text)
		p.each(p.now)
	}
	p.now, p.text = Hunk{}, p.text[:0]
}

func (p *patch) take(line []byte) {
	if p.old+p.new > 0 {
		p.body(line)
		return
	}
	if name, ok := bytes.CutPrefix(line, []byte("+++ ")); ok {
		p.end()
		p.left = p.most
		p.path, p.wrong = pathIn(string(name))
		return
	}
	if !bytes.HasPrefix(line, []byte("@@ -")) {
		return
	}
	p.end()
	var first int
	first, p.old, p.new = places(string(line))
	if p.new > 0 {
		p.now = Hunk{Path: p.path, First: first}
	}
}

func (p *patch) body(line []byte) {
	switch {
	case len(line) == 0 || line[0] == '\\': // no newline at the end of the file
	case line[0] == '-':
		p.old--
	case line[0] == '+':
		p.new--
		keep := line[1:][:min(len(line)-1, p.left)]
		p.now.Cut = p.now.Cut || p.long || len(keep) < len(line)-1
		p.text = append(append(p.text, keep...), '\n')
		p.left -= len(keep)
	}
}

// pathIn returns the path behind +++, which git quotes if it contains unusual characters.
func pathIn(name string) (string, error) {
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

// places parses @@ -old,lines +new,lines @@: the number of the first new line, and the numbers of old and new lines.
func places(line string) (first, old, new int) {
	parts := strings.Fields(line)
	if len(parts) < 3 {
		return 0, 0, 0
	}
	_, old = span(parts[1])
	first, new = span(parts[2])
	return first, old, new
}

func span(s string) (first, lines int) {
	at, n, several := strings.Cut(s[1:], ",")
	first, _ = strconv.Atoi(at)
	if lines = 1; several {
		lines, _ = strconv.Atoi(n)
	}
	return first, lines
}
