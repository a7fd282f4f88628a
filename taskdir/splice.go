package taskdir

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/trellis-tasks/trellis/internal/text"
)

// member is a key and value of an object, as byte offsets into its text.
type member struct {
	key        string
	keyAt, end int
}

func membersOf(object string) []member {
	var list []member
	gjson.Parse(object).ForEach(func(k, v gjson.Result) bool {
		list = append(list, member{k.Str, k.Index, v.Index + len(v.Raw)})
		return true
	})
	return list
}

// insert adds a missing member to the text of object: after the nearest member that precedes it in order, or at the end if
// order doesn't contain it. The existing text is unchanged. line is the text before object on its first line.
func insert(object, key string, value []byte, order []string, line string, style style) string {
	list := membersOf(object)
	after := insertIndex(list, key, order)
	quoted, _ := text.JSON(key) // a text can always be encoded
	if len(list) == 0 {
		return insertFirst(object, string(quoted), value, line, style)
	}
	sep, indent := ", ", ""
	if before := lineBefore(object, list[0].keyAt); before != object[:list[0].keyAt] && leadingSpace(before) == before {
		indent = before
		sep = "," + style.newline + indent
		value = style.pretty(value, indent)
	} else {
		value = onOneLine(value)
	}
	text := string(quoted) + ": " + string(value)
	if after < 0 {
		return object[:list[0].keyAt] + text + sep + object[list[0].keyAt:]
	}
	return object[:list[after].end] + sep + text + object[list[after].end:]
}

// insertFirst puts the first member into an empty object.
func insertFirst(object, key string, value []byte, line string, style style) string {
	open := strings.IndexByte(object, '{') + 1
	if strings.ContainsAny(line, "{[") {
		return object[:open] + key + ": " + string(onOneLine(value)) + object[open:]
	}
	indent := leadingSpace(line) + style.unit
	text := style.newline + indent + key + ": " + string(style.pretty(value, indent))
	if inside, _, _ := strings.Cut(object[open:], "}"); !strings.Contains(inside, "\n") {
		text += style.newline + leadingSpace(line)
	}
	return object[:open] + text + object[open:]
}

// lineBefore returns the part of doc's line before the offset at.
func lineBefore(doc string, at int) string {
	return doc[strings.LastIndexByte(doc[:at], '\n')+1 : at]
}

// leadingSpace returns the leading white space of a line.
func leadingSpace(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// insertIndex returns the index of the member to insert key after, -1 for the front.
func insertIndex(list []member, key string, order []string) int {
	rank := slices.Index(order, key)
	if rank < 0 {
		return len(list) - 1
	}
	after, best := -1, -1
	for i, m := range list {
		if r := slices.Index(order, m.key); r >= best && r < rank && r >= 0 {
			after, best = i, r
		}
	}
	return after
}

// style is the layout of a file.
type style struct{ newline, unit string }

func styleOf(doc string) style {
	s := style{"\n", "  "}
	list := membersOf(doc)
	if len(list) == 0 {
		return s
	}
	before := lineBefore(doc, list[0].keyAt)
	if strings.HasSuffix(doc[:list[0].keyAt-len(before)], "\r\n") {
		s.newline = "\r\n"
	}
	if before != "" && leadingSpace(before) == before {
		s.unit = before
	}
	return s
}

// pretty formats a value over several lines that begin with margin.
func (s style) pretty(value []byte, margin string) []byte {
	var b bytes.Buffer
	if json.Indent(&b, value, margin, s.unit) != nil {
		return value
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte(s.newline))
}

// onOneLine formats a value on one line, with a space after commas and colons.
func onOneLine(value []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, value, "", "") != nil {
		return value
	}
	text := strings.ReplaceAll(b.String(), ",\n", ", ")
	return []byte(strings.ReplaceAll(text, "\n", "")) // JSON texts contain no line breaks
}

// formatLike returns value formatted like the one it replaces: a list or object on one line stays on one line.
func formatLike(doc string, old gjson.Result, value []byte, style style) []byte {
	compound := old.Type == gjson.JSON && len(strings.Trim(old.Raw, "[]{} \t\r\n")) > 0
	if compound && !strings.Contains(old.Raw, "\n") {
		return onOneLine(value)
	}
	line := lineBefore(doc, old.Index)
	if strings.ContainsAny(line, "{[") { // it is on one line with its parent
		return onOneLine(value)
	}
	return style.pretty(value, leadingSpace(line))
}

// sameValue reports whether two JSON texts have the same value; 1 and 1.0 differ.
func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := decode(a)
	y, errY := decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func decode(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}
