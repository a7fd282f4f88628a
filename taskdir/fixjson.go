package taskdir

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Repaired is the content of a task.json that JSON readers reject, and the content that was most surely meant.
type Repaired struct {
	Before, After []byte
	Notes         []string // the changes, such as "line 12: quotes around 2026-01-16"
}

// Repair proposes how to turn the content of a task.json into valid JSON with as few changed bytes as possible. It returns nil if
// there is nothing to mend. Ambiguous damage is not guessed at: the error is then the *trellis.Problem that tells a person what
// to mend, and where.
//
// It mends one kind of damage at a time: values without quotes; a comma before a closing bracket; comments; raw line breaks and
// tabs in a text; the single quotes, None, True and False of Python; a field that occurs twice with the same value; and,
// besides any of these, a byte order mark before the text and NUL bytes after it.
func Repair(file string, data []byte) (*Repaired, error) {
	text, notes := trimEdges(string(data))
	if _, err := Parse(file, []byte(text)); err != nil {
		mended, more, ok := repairText(text)
		if _, mendedErr := Parse(file, []byte(mended)); !ok || mendedErr != nil {
			_, err := Parse(file, []byte(strings.TrimRight(string(data), "\x00")))
			return nil, err
		}
		text, notes = mended, append(notes, more...)
	}
	if text == string(data) {
		return nil, nil
	}
	return &Repaired{data, []byte(text), notes}, nil
}

// trimEdges removes a byte order mark before the text of a file and NUL bytes after it.
func trimEdges(text string) (string, []string) {
	var notes []string
	if rest, ok := strings.CutPrefix(text, bom); ok {
		text, notes = rest, append(notes, "line 1: no byte order mark")
	}
	if rest := strings.TrimRight(text, "\x00"); len(rest) < len(text) && strings.TrimSpace(rest) != "" {
		notes = append(notes, fmt.Sprintf("at the end: without %d NUL bytes", len(text)-len(rest)))
		text = rest
	}
	return text, notes
}

// repairText mends text that one kind of damage keeps from being a task.json.
func repairText(text string) (string, []string, bool) {
	if len(text) > durable.MaxRecords || trellis.ConflictAt(text) >= 0 {
		return "", nil, false
	}
	if json.Valid([]byte(text)) {
		return mendDuplicates(text)
	}
	m := &mender{text: text}
	if !m.document() || !m.isUnambiguous() {
		return "", nil, false
	}
	mended, notes := m.apply()
	return mended, notes, json.Valid([]byte(mended))
}

// Kinds of damage.
const (
	unquotedText    = "bare"
	trailingComma   = "comma"
	commentDamage   = "comment"
	rawLineBreak    = "raw"
	pythonSyntax    = "python"
	duplicateMember = "twice"
)

// change replaces a part of the text.
type change struct {
	kind     string
	from, to int
	text     string
	note     string
}

// mender reads text that is almost JSON, and collects the changes that would make it JSON.
type mender struct {
	text            string
	pos             int
	depth           int // nesting depth of objects and lists
	changes         []change
	gaps            gaps // of the current object
	hasDoubleQuotes bool // a key has double quotes that Python would not write: a ' may then begin a text that lost its double quotes
	hasNonText      bool // a field for text has a number, true or false as its value, a text that may have lost its quotes
}

// gaps are the distinct blanks between colons and values.
type gaps struct {
	valid    []string // before values that are valid JSON
	unquoted []string // before values without quotes
}

// isUnambiguous reports whether the blank before a value without quotes can't be part of that value.
func (g gaps) isUnambiguous() bool {
	return len(g.unquoted) == 0 || len(g.valid) == 1 && len(g.unquoted) == 1 && (g.unquoted[0] == g.valid[0] || g.unquoted[0] == "")
}

// isUnambiguous reports whether the collected changes are unambiguous.
func (m *mender) isUnambiguous() bool {
	if len(m.changes) == 0 {
		return false
	}
	kind := m.changes[0].kind
	if slices.ContainsFunc(m.changes, func(c change) bool { return c.kind != kind }) {
		return false
	}
	return !(kind == pythonSyntax && m.hasDoubleQuotes) && !(kind == unquotedText && m.hasNonText)
}

// apply returns the text with the changes applied, and their notes.
func (m *mender) apply() (string, []string) {
	var b strings.Builder
	var notes []string
	at := 0
	for _, c := range m.changes {
		b.WriteString(m.text[at:c.from])
		b.WriteString(c.text)
		at = c.to
		if line := fmt.Sprintf("line %d: %s", strings.Count(m.text[:c.from], "\n")+1, c.note); !slices.Contains(notes, line) {
			notes = append(notes, line)
		}
	}
	b.WriteString(m.text[at:])
	return b.String(), notes
}

func (m *mender) addChange(kind string, from, to int, text, note string) {
	m.changes = append(m.changes, change{kind, from, to, text, note})
}

// mendDuplicates removes the second of two members with the same name and value, if Trellis reads that name.
func mendDuplicates(text string) (string, []string, bool) {
	m := &mender{text: text}
	if !gjson.Parse(text).IsObject() || !m.removeDuplicates("", gjson.Parse(text)) || len(m.changes) == 0 {
		return "", nil, false
	}
	slices.SortFunc(m.changes, func(a, b change) int { return a.from - b.from })
	mended, notes := m.apply()
	return mended, notes, true
}

// removeDuplicates collects the removals of repeated members of the object at path. It returns false if two members of one name differ.
func (m *mender) removeDuplicates(path string, object gjson.Result) bool {
	first := map[string]gjson.Result{}
	end, same := 0, true // end of the previous member
	object.ForEach(func(k, v gjson.Result) bool {
		name := strings.TrimPrefix(path+"."+k.Str, ".")
		was, again := first[k.Str]
		known := shapeOf(name).Exists() && !strings.HasPrefix(name, "meta.") || name == "created"
		switch {
		case again && known && !sameValue(was.Raw, v.Raw):
			same = false
		case again && known:
			m.addChange(duplicateMember, end, v.Index+len(v.Raw), "", "not for the second time: "+k.Raw)
		case known && v.IsObject():
			same = m.removeDuplicates(name, v)
		}
		if !again {
			first[k.Str] = v
		}
		end = v.Index + len(v.Raw)
		return same
	})
	return same
}
