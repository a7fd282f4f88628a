package secrets

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table is a table of a TOML document: strings, float64, bool, []any and tables. Dates stand as their text.
type table map[string]any

const (
	maxTOML = 1 << 20 // bytes of a document
	maxDeep = 32      // values within values
)

// parseTOML reads a TOML document.
func parseTOML(text string) (table, error) {
	if len(text) > maxTOML {
		return nil, fmt.Errorf("it is larger than %d KiB", maxTOML>>10)
	}
	r := &reader{text: strings.ReplaceAll(text, "\r\n", "\n")}
	doc := table{}
	into := doc
	for r.blank(true); r.more(); r.blank(true) {
		var err error
		if r.peek() == '[' {
			into, err = r.header(doc)
		} else {
			err = r.pair(into, 0)
		}
		if err == nil {
			err = r.lineEnd()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", 1+strings.Count(r.text[:r.at], "\n"), err)
		}
	}
	return doc, nil
}

// reader is where in a document one is.
type reader struct {
	text string
	at   int
}

func (r *reader) more() bool { return r.at < len(r.text) }

// peek is the next byte, 0 at the end.
func (r *reader) peek() byte {
	if !r.more() {
		return 0
	}
	return r.text[r.at]
}

// take goes on behind s if that comes next.
func (r *reader) take(s string) bool {
	if !strings.HasPrefix(r.text[r.at:], s) {
		return false
	}
	r.at += len(s)
	return true
}

// until is the text up to end, which is gone over too.
func (r *reader) until(end string) (string, error) {
	text, _, found := strings.Cut(r.text[r.at:], end)
	if !found {
		return "", fmt.Errorf("%s is missing", end)
	}
	r.at += len(text) + len(end)
	return text, nil
}

// blank goes over white space and comments, with lines over ends of lines too.
func (r *reader) blank(lines bool) {
	for r.more() {
		switch c := r.peek(); {
		case c == ' ' || c == '\t' || lines && c == '\n':
			r.at++
		case c == '#':
			for r.more() && r.peek() != '\n' {
				r.at++
			}
		default:
			return
		}
	}
}

func (r *reader) lineEnd() error {
	r.blank(false)
	if r.more() && r.peek() != '\n' {
		return fmt.Errorf("the line should end here")
	}
	return nil
}

// header is [a.b] or [[a.b]]; it returns the table that follows.
func (r *reader) header(doc table) (table, error) {
	list, end := r.take("[["), "]]"
	if !list {
		r.take("[")
		end = "]"
	}
	names, err := r.names()
	if err != nil {
		return nil, err
	}
	if !r.take(end) {
		return nil, fmt.Errorf("%s is missing", end)
	}
	last := names[len(names)-1]
	into, err := doc.below(names[:len(names)-1])
	if err != nil || !list {
		if err == nil {
			into, err = into.below([]string{last})
		}
		return into, err
	}
	t := table{}
	old, _ := into[last].([]any)
	into[last] = append(old, t)
	return t, nil
}

// below is the table of these names, made where there is none; of a list of tables the last.
func (t table) below(names []string) (table, error) {
	for _, name := range names {
		if t[name] == nil {
			t[name] = table{}
		}
		next, ok := t[name].(table)
		if list, is := t[name].([]any); is && len(list) > 0 {
			next, ok = list[len(list)-1].(table)
		}
		if !ok {
			return nil, fmt.Errorf("%s is no table", name)
		}
		t = next
	}
	return t, nil
}

// names are the parts of a dotted key.
func (r *reader) names() (list []string, err error) {
	for {
		r.blank(false)
		var name string
		if c := r.peek(); c == '"' || c == '\'' {
			if name, err = r.quoted(); err != nil {
				return nil, err
			}
		} else if name = r.bare(); name == "" {
			return nil, fmt.Errorf("a key is missing")
		}
		list = append(list, name)
		r.blank(false)
		if !r.take(".") {
			return list, nil
		}
	}
}

func (r *reader) bare() string {
	from := r.at
	for c := r.peek(); c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'; c = r.peek() {
		r.at++
	}
	return r.text[from:r.at]
}

// pair is name = value.
func (r *reader) pair(into table, deep int) error {
	names, err := r.names()
	if err != nil {
		return err
	}
	if !r.take("=") {
		return fmt.Errorf("= is missing")
	}
	into, err = into.below(names[:len(names)-1])
	if err != nil {
		return err
	}
	r.blank(false)
	into[names[len(names)-1]], err = r.value(deep)
	return err
}

func (r *reader) value(deep int) (any, error) {
	if deep > maxDeep {
		return nil, fmt.Errorf("values within more than %d values", maxDeep)
	}
	switch r.peek() {
	case '"', '\'':
		return r.quoted()
	case '[':
		return r.list(deep)
	case '{':
		return r.inline(deep)
	}
	from := r.at
	for r.more() && !strings.ContainsRune(",]}#\n", rune(r.peek())) {
		r.at++
	}
	word := strings.TrimSpace(r.text[from:r.at])
	if n, err := strconv.ParseFloat(strings.ReplaceAll(word, "_", ""), 64); err == nil {
		return n, nil
	}
	switch word {
	case "":
		return nil, fmt.Errorf("a value is missing")
	case "true", "false":
		return word == "true", nil
	}
	return word, nil
}

func (r *reader) list(deep int) (list []any, err error) {
	r.take("[")
	for r.blank(true); !r.take("]"); r.blank(true) {
		v, err := r.value(deep + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if r.blank(true); !r.take(",") && r.peek() != ']' {
			return nil, fmt.Errorf(", or ] is missing")
		}
	}
	return list, nil
}

func (r *reader) inline(deep int) (table, error) {
	r.take("{")
	t := table{}
	for r.blank(true); !r.take("}"); r.blank(true) {
		if err := r.pair(t, deep+1); err != nil {
			return nil, err
		}
		if r.blank(true); !r.take(",") && r.peek() != '}' {
			return nil, fmt.Errorf(", or } is missing")
		}
	}
	return t, nil
}

// quoted is a string of one of the four kinds.
func (r *reader) quoted() (string, error) {
	switch {
	case r.take("'''"):
		r.take("\n")
		return r.until("'''")
	case r.take("'"):
		return r.until("'")
	case r.take(`"""`):
		r.take("\n")
		return r.escaped(`"""`)
	default:
		r.take(`"`)
		return r.escaped(`"`)
	}
}

// escapes are what stands for one character behind a backslash.
const escapes = "b\bt\tn\nf\fr\r\"\"\\\\"

func (r *reader) escaped(end string) (string, error) {
	var b strings.Builder
	for !r.take(end) {
		switch c := r.peek(); {
		case !r.more() || c == '\n' && len(end) == 1:
			return "", fmt.Errorf("%s is missing", end)
		case c != '\\':
			b.WriteByte(c)
			r.at++
		default:
			r.at++
			if err := r.escape(&b); err != nil {
				return "", err
			}
		}
	}
	return b.String(), nil
}

func (r *reader) escape(b *strings.Builder) error {
	c := r.peek()
	if i := strings.IndexByte(escapes, c); i >= 0 && i%2 == 0 && r.more() {
		b.WriteByte(escapes[i+1])
		r.at++
		return nil
	}
	digits := map[byte]int{'u': 4, 'U': 8}[c]
	switch {
	case digits > 0 && r.at+1+digits <= len(r.text):
		n, err := strconv.ParseUint(r.text[r.at+1:r.at+1+digits], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return fmt.Errorf("not a character")
		}
		b.WriteRune(rune(n))
		r.at += 1 + digits
	case c == ' ' || c == '\t' || c == '\n':
		for c := r.peek(); c == ' ' || c == '\t' || c == '\n'; c = r.peek() {
			r.at++
		}
	default:
		return fmt.Errorf("nothing is written \\%c", c)
	}
	return nil
}
