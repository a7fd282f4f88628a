// Package diffview parses a diff written by git for display: into files, hunks and numbered lines, the changed parts of lines,
// and the parts that are comments, strings, numbers or keywords. It renders nothing.
package diffview

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Kind says how a file was changed.
type Kind string

const (
	Modified Kind = "modified"
	Added    Kind = "added"
	Deleted  Kind = "deleted"
	Renamed  Kind = "renamed"
	Copied   Kind = "copied"
)

// File has the changes of one file.
type File struct {
	Old, New         string // names, without a/ and b/; "" if it doesn't exist on that side
	Kind             Kind
	OldMode, NewMode string // such as 100644 and 100755; "" if unchanged, or git doesn't say
	Binary           bool   // there are no lines
	Added, Deleted   int    // lines
	Hunks            []Hunk
}

// Name returns the current name of the file, or the old one if it was deleted.
func (f *File) Name() string {
	return cmp.Or(f.New, f.Old)
}

// Hunk is a group of adjacent lines of a file.
type Hunk struct {
	Old, New int    // numbers of the first lines
	Section  string // the enclosing function or section, as git found it
	Lines    []Line
}

// Mark says on which side of the diff a line is.
type Mark byte

const (
	Same   Mark = ' '
	Plus   Mark = '+'
	Minus  Mark = '-'
	header Mark = '@' // of a hunk
)

// Line is a line in a hunk.
type Line struct {
	Mark     Mark
	Old, New int // line numbers, 0 on a side that lacks the line
	Text     string
	Cut      int  // number of bytes omitted at its end
	NoEnd    bool // the last line of the file, without a newline
}

// maxLine is how much of a line is kept, in bytes.
const maxLine = 4 << 10

// Read reads a diff and calls each for one file after the other. It doesn't keep the files.
func Read(r io.Reader, each func(*File) error) error {
	p := &parser{in: bufio.NewReaderSize(r, 64<<10)}
	for {
		f, err := p.readFile()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a difference, line %d: %w", p.lineNumber, err)
		}
		if err := each(f); err != nil {
			return err
		}
	}
}

// parser reads a diff line by line.
type parser struct {
	in         *bufio.Reader
	lineNumber int    // number of the current line
	line       string // the current line, without the newline
	cut        int    // number of bytes that line lacks at its end
	unread     bool   // next returns the current line again
}

// next advances to the next line.
func (p *parser) next() error {
	if p.unread {
		p.unread = false
		return nil
	}
	p.cut = 0
	data, err := p.in.ReadSlice('\n')
	p.line = string(data[:min(len(data), maxLine)])
	p.cut = len(data) - len(p.line)
	for errors.Is(err, bufio.ErrBufferFull) {
		data, err = p.in.ReadSlice('\n')
		p.cut += len(data)
	}
	if p.line == "" {
		return err // io.EOF, or an error of the reader
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	p.lineNumber++
	if p.cut == 0 {
		p.line = strings.TrimSuffix(p.line, "\n")
	} else if err == nil {
		p.cut-- // the newline
	}
	return nil
}

// readFile reads the next file. It returns io.EOF if there is none.
func (p *parser) readFile() (*File, error) {
	for {
		if err := p.next(); err != nil {
			return nil, err
		}
		if names, ok := strings.CutPrefix(p.line, "diff --git "); ok {
			f := &File{Kind: Modified}
			f.Old, f.New = headerNames(names)
			return f, p.readFileBody(f)
		}
	}
}

// readFileBody reads what follows the first line of a file.
func (p *parser) readFileBody(f *File) error {
	for {
		err := p.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case strings.HasPrefix(p.line, "diff --git "):
			p.unread = true
			return nil
		case strings.HasPrefix(p.line, "@@ "):
			err = p.readHunk(f)
		default:
			f.parseHeader(p.line)
		}
		if err != nil {
			return err
		}
	}
}

// parseHeader processes a header line of a file.
func (f *File) parseHeader(line string) {
	for _, is := range []struct {
		prefix string
		take   func(string)
	}{
		{"old mode ", func(s string) { f.OldMode = s }},
		{"new mode ", func(s string) { f.NewMode = s }},
		{"new file mode ", func(s string) { f.Kind, f.Old, f.NewMode = Added, "", s }},
		{"deleted file mode ", func(s string) { f.Kind, f.New, f.OldMode = Deleted, "", s }},
		{"rename from ", func(s string) { f.Kind, f.Old = Renamed, unquote(s) }},
		{"rename to ", func(s string) { f.Kind, f.New = Renamed, unquote(s) }},
		{"copy from ", func(s string) { f.Kind, f.Old = Copied, unquote(s) }},
		{"copy to ", func(s string) { f.Kind, f.New = Copied, unquote(s) }},
		{"--- ", func(s string) { f.Old = sideName(s, "a/") }},
		{"+++ ", func(s string) { f.New = sideName(s, "b/") }},
		{"Binary files ", func(string) { f.Binary = true }},
		{"GIT binary patch", func(string) { f.Binary = true }},
	} {
		if rest, ok := strings.CutPrefix(line, is.prefix); ok {
			is.take(rest)
			return
		}
	}
}

// readHunk reads the lines of a hunk, as many as its header announces.
func (p *parser) readHunk(f *File) error {
	h := Hunk{}
	var olds, news int
	words := strings.SplitN(p.line, " ", 5)
	if len(words) < 4 || words[3] != "@@" {
		return fmt.Errorf("%q is not the beginning of a hunk", p.line)
	}
	var err, newErr error
	h.Old, olds, err = parseRange(words[1], '-')
	h.New, news, newErr = parseRange(words[2], '+')
	if err = errors.Join(err, newErr); err != nil {
		return err
	}
	if len(words) == 5 {
		h.Section = words[4]
	}
	old, now := h.Old, h.New
	for olds > 0 || news > 0 {
		if err := p.next(); errors.Is(err, io.EOF) {
			break // a truncated diff: the lines so far are shown
		} else if err != nil {
			return err
		}
		l := Line{Mark: Same, Cut: p.cut}
		if p.line != "" {
			l.Mark, l.Text = Mark(p.line[0]), p.line[1:]
		}
		switch l.Mark {
		case '\\':
			if len(h.Lines) > 0 {
				h.Lines[len(h.Lines)-1].NoEnd = true
			}
			continue
		case Plus:
			l.New = now
			f.Added++
		case Minus:
			l.Old = old
			f.Deleted++
		case Same:
			l.Old, l.New = old, now
		default:
			return fmt.Errorf("%q is not a line of a hunk", p.line)
		}
		if l.Old > 0 {
			old, olds = old+1, olds-1
		}
		if l.New > 0 {
			now, news = now+1, news-1
		}
		h.Lines = append(h.Lines, l)
	}
	f.Hunks = append(f.Hunks, h)
	return p.readEndMarker(&f.Hunks[len(f.Hunks)-1])
}

// readEndMarker reads the marker that the last line of a hunk has no newline, if it is there.
func (p *parser) readEndMarker(h *Hunk) error {
	err := p.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	case strings.HasPrefix(p.line, `\`) && len(h.Lines) > 0:
		h.Lines[len(h.Lines)-1].NoEnd = true
	default:
		p.unread = true
	}
	return nil
}

// parseRange parses the first line and the number of lines of a hunk on one side.
func parseRange(word string, mark byte) (first, count int, err error) {
	if word == "" || word[0] != mark {
		return 0, 0, fmt.Errorf("%q is not a place of a hunk", word)
	}
	begins, many, counted := strings.Cut(word[1:], ",")
	first, err = strconv.Atoi(begins)
	if count = 1; counted && err == nil {
		count, err = strconv.Atoi(many)
	}
	if err != nil || first < 0 || count < 0 || first == 0 && count > 0 {
		return 0, 0, fmt.Errorf("%q is not a place of a hunk", word)
	}
	return first, count, nil
}

// sideName returns the file name after --- or +++, "" if the file doesn't exist on that side.
func sideName(s, prefix string) string {
	s, _, _ = strings.Cut(s, "\t") // git appends a tab to names with spaces
	if s == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(unquote(s), prefix)
}

// headerNames returns the names after "diff --git", which are equal unless later lines say otherwise.
func headerNames(s string) (old, now string) {
	if strings.HasPrefix(s, `"`) {
		if first, err := strconv.QuotedPrefix(s); err == nil {
			return strings.TrimPrefix(unquote(first), "a/"), strings.TrimPrefix(unquote(strings.TrimPrefix(s[len(first):], " ")), "b/")
		}
	}
	if half := len(s) / 2; len(s)%2 == 1 && s[half] == ' ' {
		return strings.TrimPrefix(s[:half], "a/"), strings.TrimPrefix(s[half+1:], "b/")
	}
	old, now, _ = strings.Cut(s, " b/")
	return strings.TrimPrefix(old, "a/"), now
}

// unquote returns a file name as it is; git quotes names with special characters.
func unquote(s string) string {
	if !strings.HasPrefix(s, `"`) {
		return s
	}
	if name, err := strconv.Unquote(s); err == nil {
		return name
	}
	return strings.Trim(s, `"`)
}
