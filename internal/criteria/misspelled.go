package criteria

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// words are the words in the names that begin a verify line.
var words = []string{"verify", "verified", "verification", "with", "by", "using", "command"}

// likeWords are other words that are similar to one of those.
var likeWords = []string{"very", "verity", "verily", "vilify", "vivify", "variation"}

// meant returns the key that a name is a misspelling of, "" if it is not one.
func meant(name string) string {
	name = strings.ToLower(strings.Trim(name, "*_`(:： "))
	if len(name) > 40 {
		return ""
	}
	if name != "level" && trellis.Nearest(name, []string{"level"}) != "" && name[0] == 'l' {
		return "level"
	}
	parts := strings.Fields(name)
	if len(parts) == 0 || parts[0][0] != 'v' || slices.Contains(likeWords, parts[0]) {
		return ""
	}
	for i, part := range parts {
		parts[i] = trellis.Nearest(part, words)
	}
	switch right := strings.Join(parts, " "); {
	case right == name: // it is spelled correctly, as in a sentence
		return ""
	case right == "verified", right == "verification", slices.Contains(verifyKeys, right):
		return "verify"
	}
	return ""
}

// misspelled warns about a line that is read as text, but was meant to say how an item is verified, or its level.
func (r *reader) misspelled(said string, l line, m marker) {
	name, value, colon := cutColon(said)
	if code := strings.IndexByte(said, '`'); code > 0 && (!colon || code < len(name)) {
		name, value, colon = said[:code], said[code:], false
	}
	value = strings.TrimSpace(strings.TrimLeft(value, "*_ "))
	inCode := strings.HasPrefix(value, "`")
	o := r.last()
	below := o != nil && (l.indent > o.indent || !m.found() && !r.gap)
	switch key := meant(name); {
	case key == "level" && colon && levelOf(value) != "", key == "verify" && (inCode || below && colon):
		r.notRead(l.number, name, key)
	}
}

// notRead warns about a misspelled key.
func (d *document) notRead(at int, name, key string) {
	does := "no command is run for it"
	if key == "level" {
		does = "the level is not changed"
	}
	d.warnf(at, "did you mean: "+key, "%q is read as a part of the criterion, and %s", strings.Trim(name, "*_` "), does)
}

var oddAtTheEnd = trellis.Pattern("[(\\[—–,.]\\s*\\**([A-Za-z]+(?: [A-Za-z]+)?)\\**:\\**\\s*`+[^`]+`+[)\\].]*$")

// misspelledAtTheEnd warns about an item with a command at its end that is not read as one: text (verfy: `x`).
func (r *reader) misspelledAtTheEnd(o *open, said string) {
	if len(o.commands) > 0 || !strings.Contains(said, "`") {
		return
	}
	if m := oddAtTheEnd().FindStringSubmatch(said); m != nil && meant(m[1]) == "verify" {
		r.notRead(o.Line, m[1], "verify")
	}
}

// misspelled warns about columns of a table whose titles are similar to those of a command, or a level.
func (c columns) misspelled(d *document, at int) {
	for i, title := range c.titles {
		key := meant(title)
		if i != c.text && (key == "verify" && c.verify < 0 || key == "level" && c.level < 0) {
			d.notRead(at, title, key)
		}
	}
}
