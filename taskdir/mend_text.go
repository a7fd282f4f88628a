package taskdir

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// document reads the text's only object. All readers below return false for what they do not understand.
func (m *mender) document() bool {
	if !m.skipBlank(true) || m.peek() != '{' || !m.object("") {
		return false
	}
	tail := strings.TrimLeft(m.text[m.pos:], " \t\r")
	return (tail == "" || tail[0] == '\n') && m.skipBlank(true) && m.pos == len(m.text)
}

func (m *mender) peek() byte {
	if m.pos < len(m.text) {
		return m.text[m.pos]
	}
	return 0
}

// skipBlank skips white space, and comments where they are unambiguous.
func (m *mender) skipBlank(comments bool) bool {
	for {
		m.pos += len(m.text[m.pos:]) - len(strings.TrimLeft(m.text[m.pos:], " \t\r\n"))
		if m.peek() != '#' && m.peek() != '/' {
			return true
		}
		if !comments || !m.removeComment() {
			return false
		}
	}
}

// removeComment skips a comment and removes it. After other text on its line it may be part of a text that lost its quotes: then one
// with quotes, brackets or a last comma is refused.
func (m *mender) removeComment() bool {
	rest, end := m.text[m.pos:], 0
	switch {
	case strings.HasPrefix(rest, "/*"):
		end = strings.Index(rest, "*/") + 2
		if end < 4 {
			return false
		}
	case strings.HasPrefix(rest, "//"), rest[0] == '#':
		if end = strings.IndexByte(rest, '\n'); end < 0 {
			end = len(rest)
		}
		end = len(strings.TrimRight(rest[:end], "\r"))
	default:
		return false
	}
	from, to := m.pos, m.pos+end
	from = len(strings.TrimRight(m.text[:from], " \t"))
	if from == 0 || m.text[from-1] == '\n' { // it has a line to itself
		if after := len(m.text[to:]) - len(strings.TrimLeft(m.text[to:], " \t\r")); strings.HasPrefix(m.text[to+after:], "\n") {
			to += after + 1
		}
	} else if strings.ContainsAny(rest[:end], `"{}[]`) || strings.HasSuffix(strings.TrimSpace(rest[:end]), ",") {
		return false
	}
	m.addChange(commentDamage, from, to, "", "no comment")
	m.pos = to
	return true
}

// object reads an object whose path among the fields is path.
func (m *mender) object(path string) bool {
	around := m.gaps
	m.gaps = gaps{}
	ok := m.members(path) && m.gaps.isUnambiguous()
	m.gaps = around
	return ok
}

func (m *mender) members(path string) bool {
	if m.pos++; !m.skipBlank(true) {
		return false
	}
	if m.peek() == '}' {
		m.pos++
		return true
	}
	for {
		key, ok := m.key()
		if !ok {
			return false
		}
		field := strings.TrimPrefix(path+"."+key, ".")
		text, ok := m.member(field)
		sure := text || ok && m.matchesType(field, m.pos)
		if !ok || !m.skipBlank(sure) {
			return false
		}
		if m.peek() == '}' {
			m.pos++
			return true
		}
		if m.peek() != ',' {
			return false
		}
		if closed, ok := m.afterComma(sure, '}'); !ok || closed {
			return ok
		}
	}
}

// afterComma skips a comma. closed reports that the object or list nevertheless ends after it; this fails unless sure, which
// says that the value before the comma can't be a text without quotes: "1," may have been one.
func (m *mender) afterComma(sure bool, closing byte) (closed, ok bool) {
	at := m.pos
	m.pos++
	if !m.skipBlank(closing == '}') {
		return false, false
	}
	if m.peek() != closing {
		return false, true
	}
	if !sure {
		return false, false
	}
	m.addChange(trailingComma, at, at+1, "", "no comma before the "+string(closing))
	m.pos++
	return true, true
}

// matchesType reports whether the value that ends before at has the type of its field. If path is not a field, it returns false.
func (m *mender) matchesType(path string, at int) bool {
	field := shapeOf(path)
	if !field.Exists() || strings.HasPrefix(path, "meta.") {
		return false
	}
	switch last := m.text[at-1]; {
	case field.IsObject():
		return last == '}'
	case field.IsArray():
		return last == ']'
	}
	return field.Type != gjson.String && field.Type != gjson.Null // null fields may hold text
}

// key reads a key and its colon.
func (m *mender) key() (string, bool) {
	from := m.pos
	if !m.string() {
		return "", false
	}
	key := m.text[from+1 : m.pos-1]
	m.hasDoubleQuotes = m.hasDoubleQuotes || m.text[from] == '"' && !strings.Contains(key, "'")
	if !m.skipBlank(false) || m.peek() != ':' {
		return "", false
	}
	m.pos++
	return key, true
}

// member reads the value after a colon. text reports whether it is a text, which can't be mistaken for anything else.
func (m *mender) member(path string) (text, ok bool) {
	colon := m.pos
	at := colon + len(m.text[colon:]) - len(strings.TrimLeft(m.text[colon:], " \t\r\n"))
	m.pos = at
	if text, ok = m.value(path); ok {
		m.gaps.valid = appendUnique(m.gaps.valid, m.text[colon:at])
		m.hasNonText = m.hasNonText || isTextField(path) && strings.IndexByte(`"'n{[`, m.text[at]) < 0
		return text, true
	}
	if m.pos = at; !m.readUnquoted() {
		return false, false
	}
	m.gaps.unquoted = appendUnique(m.gaps.unquoted, m.text[colon:at])
	return true, true
}

// isTextField reports whether a field holds text.
func isTextField(path string) bool {
	field := shapeOf(path)
	return field.Exists() && (field.Type == gjson.String || field.Type == gjson.Null && !strings.Contains(path, "."))
}

func appendUnique(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// value reads a JSON or Python value.
func (m *mender) value(path string) (text, ok bool) {
	const deepest = 100
	m.depth++
	defer func() { m.depth-- }()
	switch c := m.peek(); {
	case m.depth > deepest:
		return false, false
	case c == '"', c == '\'':
		return true, m.string()
	case c == '{':
		return false, m.object(path)
	case c == '[':
		return false, m.list(path)
	}
	return false, m.literal()
}

// list reads a list. A comma may separate values or be part of one, so a value without quotes must be the only one; and as the
// brackets may be part of a text too, that is accepted only for a field that is a list.
func (m *mender) list(path string) bool {
	m.pos++
	if end := strings.IndexByte(m.text[m.pos:], ']'); end > 0 && shapeOf(path).IsArray() && canOnlyBeText(m.text[m.pos:m.pos+end]) {
		m.addQuotes(m.pos + end)
		m.pos++
		return true
	}
	if !m.skipBlank(false) {
		return false
	}
	if m.peek() == ']' {
		m.pos++
		return true
	}
	for wide := false; ; {
		first := m.peek()
		text, ok := m.value("")
		if !ok || !m.skipBlank(text) {
			return false
		}
		m.hasNonText = m.hasNonText || shapeOf(path).IsArray() && !text && first != '{' && first != '['
		if m.peek() == ']' {
			m.pos++
			return true
		}
		if m.peek() != ',' {
			return false
		}
		comma := m.pos
		closed, ok := m.afterComma(text, ']')
		if !ok || closed {
			return ok && !m.hidesText(comma+1, wide)
		}
		wide = wide || strings.HasPrefix(m.text[comma+1:], " ")
	}
}

// hidesText reports whether an empty text that lost its quotes may be between the last comma of a list, which ends at from, and
// its bracket. wide says that other commas of the list are followed by a blank.
func (m *mender) hidesText(from int, wide bool) bool {
	gap := m.text[from : m.pos-1]
	return strings.Count(gap, "\n") != 1 && (gap != "" || !wide)
}

// literal reads a number, true, false or null, or their Python forms.
func (m *mender) literal() bool {
	word := m.text[m.pos:]
	if end := strings.IndexAny(word, ",]} \t\r\n"); end >= 0 {
		word = word[:end]
	}
	if word != "" && !strings.ContainsAny(word[:1], `"{[`) && gjson.Valid(word) {
		m.pos += len(word)
		return true
	}
	for _, p := range [][2]string{{"None", "null"}, {"True", "true"}, {"False", "false"}} {
		if word == p[0] {
			m.addChange(pythonSyntax, m.pos, m.pos+len(word), p[1], p[1]+" for "+p[0])
			m.pos += len(word)
			return true
		}
	}
	return false
}

// readUnquoted reads a text without quotes that ends with its line or, if the line has several members, before the next one.
func (m *mender) readUnquoted() bool {
	rest := m.text[m.pos:]
	end := strings.IndexAny(rest, ",}\r\n")
	if end <= 0 || !canOnlyBeText(rest[:end]) {
		return false
	}
	m.addQuotes(m.pos + end)
	return true
}

// addQuotes puts quotes around the text from here to end.
func (m *mender) addQuotes(end int) {
	word := m.text[m.pos:end]
	m.addChange(unquotedText, m.pos, end, `"`+word+`"`, "quotes around "+clip(word))
	m.pos = end
}

// canOnlyBeText reports whether s, an unquoted word, can only have been a text in quotes.
func canOnlyBeText(s string) bool {
	switch strings.ToLower(s) {
	case "", "null", "none", "nil", "undefined", "nan", "inf", "infinity", "true", "false", "yes", "no", "~":
		return false
	}
	if strings.TrimSpace(s) != s || strings.ContainsAny(s, "\"\\{}[],`<>") || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' }) {
		return false
	}
	if strings.ContainsAny(s[:1], "'#*&!|%@:") || strings.HasPrefix(s, "//") || strings.Contains(s, "/*") || strings.Contains(s, " //") || strings.Contains(s, " #") {
		return false
	}
	_, notNumber := strconv.ParseFloat(s, 64)
	_, notWhole := strconv.ParseInt(s, 0, 64)
	return notNumber != nil && notWhole != nil
}

// string reads a text in quotes. Raw line breaks in it become \n; single quotes are Python's.
func (m *mender) string() bool {
	quote, from, changes := m.peek(), m.pos, len(m.changes)
	if quote != '"' && quote != '\'' {
		return false
	}
	for m.pos++; m.pos < len(m.text); m.pos++ {
		switch c := m.text[m.pos]; {
		case c == quote:
			m.pos++
			if quote == '\'' {
				m.changes = m.changes[:changes]
				return m.replaceSingleQuotes(from)
			}
			return true
		case c == '\\':
			m.pos++
		case c < ' ':
			escape, ok := map[byte]string{'\n': `\n`, '\r': `\r`, '\t': `\t`}[c]
			if !ok {
				return false
			}
			m.addChange(rawLineBreak, m.pos, m.pos+1, escape, escape+" in a text")
		}
	}
	return false
}

// replaceSingleQuotes replaces the single quotes of the text from from to here by double quotes.
func (m *mender) replaceSingleQuotes(from int) bool {
	var b strings.Builder
	inside := m.text[from+1 : m.pos-1]
	for i := 0; i < len(inside); i++ {
		switch c := inside[i]; {
		case c == '"':
			b.WriteString(`\"`)
		case c == '\\' && i+1 < len(inside) && inside[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == '\\' && i+1 < len(inside) && strings.IndexByte(`\nrtu`, inside[i+1]) >= 0:
			b.WriteString(inside[i : i+2])
			i++
		case c == '\\', c < ' ':
			return false
		default:
			b.WriteByte(c)
		}
	}
	m.addChange(pythonSyntax, from, m.pos, `"`+b.String()+`"`, "double quotes around "+clip(inside))
	return true
}
