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

// Mended is the content of a task.json that no JSON reader takes, and what it most surely was.
type Mended struct {
	Before, After []byte
	Notes         []string // what was changed, as "line 12: quotes around 2026-01-16"
}

// Mend proposes how the content of a task.json becomes one that every JSON reader takes, with as few bytes changed
// as possible. It is nil when there is nothing to mend. What could have meant two things is not guessed at: then
// the error is the *trellis.Problem that says what a person has to mend, and where.
//
// It mends one kind of damage at a time: values without quotes; a comma before a closing bracket; comments; raw
// line breaks and tabs in a text; the single quotes, None, True and False of Python; a field that stands there twice
// with the same value; and, besides any of these, a byte order mark before the text and NUL bytes behind it.
func Mend(file string, data []byte) (*Mended, error) {
	text, notes := edges(string(data))
	if _, err := Parse(file, []byte(text)); err != nil {
		mended, more, ok := mendText(text)
		if _, mendedErr := Parse(file, []byte(mended)); !ok || mendedErr != nil {
			_, err := Parse(file, []byte(strings.TrimRight(string(data), "\x00")))
			return nil, err
		}
		text, notes = mended, append(notes, more...)
	}
	if text == string(data) {
		return nil, nil
	}
	return &Mended{data, []byte(text), notes}, nil
}

// edges takes off what stands before and behind the text of a file.
func edges(text string) (string, []string) {
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

// mendText mends text that is no task.json because of one kind of damage.
func mendText(text string) (string, []string, bool) {
	if len(text) > durable.MaxRecords || trellis.ConflictAt(text) >= 0 {
		return "", nil, false
	}
	if json.Valid([]byte(text)) {
		return mendTwice(text)
	}
	m := &mender{text: text}
	if !m.document() || !m.sure() {
		return "", nil, false
	}
	mended, notes := m.apply()
	return mended, notes, json.Valid([]byte(mended))
}

// Kinds of damage.
const (
	bare    = "bare"
	comma   = "comma"
	comment = "comment"
	raw     = "raw"
	python  = "python"
	twice   = "twice"
)

// change is a part of the text that another takes the place of.
type change struct {
	kind     string
	from, to int
	text     string
	note     string
}

// mender reads text that is nearly JSON, and collects what would make it JSON.
type mender struct {
	text    string
	at      int
	depth   int // of objects and lists
	changes []change
	gaps    gaps // in the object at hand
	double  bool // a key stands in double quotes, where Python would not put them: a text that lost its own begins with '
	numbers bool // a number, true or false is the value of a field for text, which may have lost its quotes
}

// gaps are what stands between colons and values, each once.
type gaps struct {
	usual []string // before a value that JSON takes
	bare  []string // before one without quotes
}

// sure reports whether the blank before a value without quotes can't belong to it.
func (g gaps) sure() bool {
	return len(g.bare) == 0 || len(g.usual) == 1 && len(g.bare) == 1 && (g.bare[0] == g.usual[0] || g.bare[0] == "")
}

// sure reports whether what was collected can mean one thing only.
func (m *mender) sure() bool {
	if len(m.changes) == 0 {
		return false
	}
	kind := m.changes[0].kind
	if slices.ContainsFunc(m.changes, func(c change) bool { return c.kind != kind }) {
		return false
	}
	return !(kind == python && m.double) && !(kind == bare && m.numbers)
}

// apply is the text with the changes made.
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

func (m *mender) change(kind string, from, to int, text, note string) {
	m.changes = append(m.changes, change{kind, from, to, text, note})
}

// mendTwice takes away the later of two members of one name and value, where Trellis reads that name.
func mendTwice(text string) (string, []string, bool) {
	m := &mender{text: text}
	if !gjson.Parse(text).IsObject() || !m.twice("", gjson.Parse(text)) || len(m.changes) == 0 {
		return "", nil, false
	}
	slices.SortFunc(m.changes, func(a, b change) int { return a.from - b.from })
	mended, notes := m.apply()
	return mended, notes, true
}

// twice looks below the object at path. It is false when two members of one name differ.
func (m *mender) twice(path string, object gjson.Result) bool {
	first := map[string]gjson.Result{}
	end, same := 0, true // end of the member before
	object.ForEach(func(k, v gjson.Result) bool {
		name := strings.TrimPrefix(path+"."+k.Str, ".")
		was, again := first[k.Str]
		known := shapeOf(name).Exists() && !strings.HasPrefix(name, "meta.") || name == "created"
		switch {
		case again && known && !sameValue(was.Raw, v.Raw):
			same = false
		case again && known:
			m.change(twice, end, v.Index+len(v.Raw), "", "not for the second time: "+k.Raw)
		case known && v.IsObject():
			same = m.twice(name, v)
		}
		if !again {
			first[k.Str] = v
		}
		end = v.Index + len(v.Raw)
		return same
	})
	return same
}
