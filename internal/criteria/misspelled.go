package criteria

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// verifyWords are the words in the names that begin a verify line.
var verifyWords = []string{"verify", "verified", "verification", "with", "by", "using", "command"}

// similarWords are other words that are similar to one of those.
var similarWords = []string{"very", "verity", "verily", "vilify", "vivify", "variation"}

// misspelledKey returns the key that a name is a misspelling of, "" if it is not one.
func misspelledKey(name string) string {
	name = strings.ToLower(strings.Trim(name, "*_`(:： "))
	if len(name) > 40 {
		return ""
	}
	if name != "level" && trellis.Nearest(name, []string{"level"}) != "" && name[0] == 'l' {
		return "level"
	}
	parts := strings.Fields(name)
	if len(parts) == 0 || parts[0][0] != 'v' || slices.Contains(similarWords, parts[0]) {
		return ""
	}
	for i, part := range parts {
		parts[i] = trellis.Nearest(part, verifyWords)
	}
	switch right := strings.Join(parts, " "); {
	case right == name: // it is spelled correctly, as in a sentence
		return ""
	case right == "verified", right == "verification", slices.Contains(verifyKeys, right):
		return "verify"
	}
	return ""
}

// warnMisspelled warns about a line that is read as text, but was meant to say how an item is verified, or its level.
func (r *reader) warnMisspelled(said string, l line, m marker) {
	name, value, colon := cutColon(said)
	if code := strings.IndexByte(said, '`'); code > 0 && (!colon || code < len(name)) {
		name, value, colon = said[:code], said[code:], false
	}
	value = strings.TrimSpace(strings.TrimLeft(value, "*_ "))
	inCode := strings.HasPrefix(value, "`")
	o := r.lastItem()
	below := o != nil && (l.indent > o.indent || !m.found() && !r.gap)
	switch key := misspelledKey(name); {
	case key == "level" && colon && levelOf(value) != "", key == "verify" && (inCode || below && colon):
		r.warnIgnoredKey(l.number, name, key)
	}
}

// warnIgnoredKey warns about a misspelled key.
func (d *document) warnIgnoredKey(at int, name, key string) {
	does := "no command is run for it"
	if key == "level" {
		does = "the level is not changed"
	}
	d.warnf(at, "did you mean: "+key, "%q is read as a part of the criterion, and %s", strings.Trim(name, "*_` "), does)
}

var misspelledVerifyEnd = trellis.Pattern("[(\\[—–,.]\\s*\\**([A-Za-z]+(?: [A-Za-z]+)?)\\**:\\**\\s*`+[^`]+`+[)\\].]*$")

// warnMisspelledEnd warns about an item with a command at its end that is not read as one: text (verfy: `x`).
func (r *reader) warnMisspelledEnd(o *openItem, said string) {
	if len(o.commands) > 0 || !strings.Contains(said, "`") {
		return
	}
	if m := misspelledVerifyEnd().FindStringSubmatch(said); m != nil && misspelledKey(m[1]) == "verify" {
		r.warnIgnoredKey(o.Line, m[1], "verify")
	}
}

// warnMisspelled warns about columns of a table whose titles are similar to those of a command, or a level.
func (c columns) warnMisspelled(d *document, at int) {
	for i, title := range c.titles {
		key := misspelledKey(title)
		if i != c.text && (key == "verify" && c.verify < 0 || key == "level" && c.level < 0) {
			d.warnIgnoredKey(at, title, key)
		}
	}
}
