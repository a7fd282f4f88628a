// Package diffview takes a difference that git wrote apart, for those who show it: files, hunks and lines with their numbers,
// what is another within a line, and which parts are comments, strings and words of the language. It renders nothing.
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

// Kind is what became of a file.
type Kind string

const (
	Modified Kind = "modified"
	Added    Kind = "added"
	Deleted  Kind = "deleted"
	Renamed  Kind = "renamed"
	Copied   Kind = "copied"
)

// File is what was changed of one file.
type File struct {
	Old, New         string // names, without a/ and b/; "" where there is none
	Kind             Kind
	OldMode, NewMode string // as 100644 and 100755; "" where they did not change, or git does not say
	Binary           bool   // it has no lines
	Added, Deleted   int    // lines
	Hunks            []Hunk
}

// Name is what the file is called now, or was when it was deleted.
func (f *File) Name() string {
	return cmp.Or(f.New, f.Old)
}

// Hunk is some lines of a file that stand together.
type Hunk struct {
	Old, New int    // the numbers of their first lines
	Section  string // what git found them to be in
	Lines    []Line
}

// Mark says on which side a line is.
type Mark byte

const (
	Same   Mark = ' '
	Plus   Mark = '+'
	Minus  Mark = '-'
	header Mark = '@' // of a hunk
)

// Line is one of a file.
type Line struct {
	Mark     Mark
	Old, New int // its numbers, 0 on the side where it is not
	Text     string
	Cut      int  // so many bytes of its end are left out
	NoEnd    bool // the last line of its file, without an end
}

// maxLine is how much of a line is kept, in bytes.
const maxLine = 4 << 10

// Read reads a difference and hands on one file after the other, which it does not keep.
func Read(r io.Reader, each func(*File) error) error {
	p := &parser{in: bufio.NewReaderSize(r, 64<<10)}
	for {
		f, err := p.file()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a difference, line %d: %w", p.at, err)
		}
		if err := each(f); err != nil {
			return err
		}
	}
}

// parser reads a difference line by line.
type parser struct {
	in   *bufio.Reader
	at   int    // number of the line
	line string // the current one, without its end
	cut  int    // that is so many bytes longer
	held bool   // it is still to be looked at
}

// next goes on to the next line.
func (p *parser) next() error {
	if p.held {
		p.held = false
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
		return err // io.EOF, or what the reader met
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	p.at++
	if p.cut == 0 {
		p.line = strings.TrimSuffix(p.line, "\n")
	} else if err == nil {
		p.cut-- // its end
	}
	return nil
}

// file reads the next file, io.EOF when there is none.
func (p *parser) file() (*File, error) {
	for {
		if err := p.next(); err != nil {
			return nil, err
		}
		if names, ok := strings.CutPrefix(p.line, "diff --git "); ok {
			f := &File{Kind: Modified}
			f.Old, f.New = sameNames(names)
			return f, p.rest(f)
		}
	}
}

// rest reads what stands below the first line of a file.
func (p *parser) rest(f *File) error {
	for {
		err := p.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case strings.HasPrefix(p.line, "diff --git "):
			p.held = true
			return nil
		case strings.HasPrefix(p.line, "@@ "):
			err = p.hunk(f)
		default:
			f.says(p.line)
		}
		if err != nil {
			return err
		}
	}
}

// says takes in a line of what git says of a file before its hunks.
func (f *File) says(line string) {
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
		{"--- ", func(s string) { f.Old = side(s, "a/") }},
		{"+++ ", func(s string) { f.New = side(s, "b/") }},
		{"Binary files ", func(string) { f.Binary = true }},
		{"GIT binary patch", func(string) { f.Binary = true }},
	} {
		if rest, ok := strings.CutPrefix(line, is.prefix); ok {
			is.take(rest)
			return
		}
	}
}

// hunk reads the lines of a hunk, as many as its first line says.
func (p *parser) hunk(f *File) error {
	h := Hunk{}
	var olds, news int
	words := strings.SplitN(p.line, " ", 5)
	if len(words) < 4 || words[3] != "@@" {
		return fmt.Errorf("%q is not the beginning of a hunk", p.line)
	}
	var err, newErr error
	h.Old, olds, err = span(words[1], '-')
	h.New, news, newErr = span(words[2], '+')
	if err = errors.Join(err, newErr); err != nil {
		return err
	}
	if len(words) == 5 {
		h.Section = words[4]
	}
	old, now := h.Old, h.New
	for olds > 0 || news > 0 {
		if err := p.next(); errors.Is(err, io.EOF) {
			break // cut short: what is there is shown
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
	return p.end(&f.Hunks[len(f.Hunks)-1])
}

// end reads that the last line of a hunk has no end, where git says so.
func (p *parser) end(h *Hunk) error {
	err := p.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	case strings.HasPrefix(p.line, `\`) && len(h.Lines) > 0:
		h.Lines[len(h.Lines)-1].NoEnd = true
	default:
		p.held = true
	}
	return nil
}

// span is where a hunk begins on one side, and how many lines it has there.
func span(word string, mark byte) (first, count int, err error) {
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

// side is the name behind --- or +++, "" for none.
func side(s, prefix string) string {
	s, _, _ = strings.Cut(s, "\t") // which git puts behind names with blanks
	if s == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(unquote(s), prefix)
}

// sameNames are the names behind "diff --git", which are the same unless other lines say more.
func sameNames(s string) (old, now string) {
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

// unquote is a name as git writes it, between quotes where it has letters that are not plain.
func unquote(s string) string {
	if !strings.HasPrefix(s, `"`) {
		return s
	}
	if name, err := strconv.Unquote(s); err == nil {
		return name
	}
	return strings.Trim(s, `"`)
}
