package taskdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const bom = "\ufeff"

// checkText returns the JSON text of a file, without a byte order mark, or the problem with it.
func checkText(file string, data []byte) (string, *trellis.Problem) {
	doc := strings.TrimPrefix(string(data), bom)
	fail := func(at int, message, hint string) (string, *trellis.Problem) {
		p := problemAt(file, doc, at, message)
		p.Hint = hint
		return "", p
	}
	if len(data) > durable.MaxRecords {
		return fail(0, fmt.Sprintf("is larger than the %d MB that Trellis reads", durable.MaxRecords>>20), "")
	}
	if strings.TrimSpace(doc) == "" {
		return fail(0, "the file is empty", `write {"status": "planning"} into it, or take it back from git`)
	}
	if !utf8.ValidString(doc) {
		return fail(text.InvalidUTF8(doc), "is not UTF-8 text", "save the file as UTF-8")
	}
	if !json.Valid(data[len(data)-len(doc):]) {
		return "", Diagnose(file, doc)
	}
	if at := len(doc) - len(strings.TrimLeft(doc, " \t\r\n")); doc[at] != '{' {
		return fail(at, "holds JSON that is not an object", `a task is written as {"status": "planning", …}`)
	}
	return doc, nil
}

// problemAt returns a problem at the byte offset at of doc; columns count characters.
func problemAt(file, doc string, at int, message string) *trellis.Problem {
	before := doc[:min(at, len(doc))]
	line := strings.LastIndexByte(before, '\n') + 1
	return &trellis.Problem{
		File:    file,
		Line:    strings.Count(before, "\n") + 1,
		Column:  utf8.RuneCountInString(before[line:]) + 1,
		Message: message,
	}
}

// Diagnose returns the problem with a file's text that is not JSON: where it is, in words that help people to mend it, and how.
// It also serves files in formats other than task.json.
func Diagnose(file, text string) *trellis.Problem {
	at, message, hint := diagnose(text)
	p := problemAt(file, text, at, "not valid JSON: "+message)
	p.Hint = hint
	return p
}

// diagnose returns where text that is not JSON goes wrong, what is wrong there, and the likely mend.
func diagnose(doc string) (at int, message, hint string) {
	at, cause := syntaxError(doc)
	if i := trellis.ConflictAt(doc); i >= 0 {
		return i, trellis.MergeConflict, trellis.MendMergeConflict
	}
	if i := strings.IndexByte(strings.TrimRight(doc, "\x00"), 0); i >= 0 {
		return i, "a NUL byte, as texts in another encoding than UTF-8 have", "save the file as UTF-8"
	}
	if at >= len(doc) {
		return len(doc), "the text ends too early", "a bracket or a quote is not closed; an interrupted write looks so too: take the file back from git"
	}
	if strings.Contains(cause, "max depth") {
		return at, "more brackets are open here than any JSON reader takes", "remove those that are nested for no reason"
	}
	if start, ok := unquotedValue(doc, at); ok {
		return explainUnquoted(doc, start)
	}
	if message, hint = explainByte(doc, at); message != "" {
		return at, message, hint
	}
	if strings.TrimSpace(doc[:at]) == "" {
		return at, "the text does not begin with {", `JSON is written as {"key": value, …}`
	}
	return at, cause, ""
}

// syntaxError returns the offset at which the JSON reader stopped, and its message.
func syntaxError(doc string) (at int, cause string) {
	var any json.RawMessage
	err := json.Unmarshal([]byte(doc), &any)
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &syntax):
		return 0, fmt.Sprint(err)
	case strings.Contains(syntax.Error(), "unexpected end"):
		return len(doc), syntax.Error()
	}
	return max(int(syntax.Offset)-1, 0), syntax.Error()
}

// unquotedValue finds the value without quotes that the reader stopped in, if there is one: the text between the preceding colon,
// bracket or comma and the end of its line or the next comma or bracket.
func unquotedValue(doc string, at int) (start int, ok bool) {
	line := strings.LastIndexByte(doc[:at], '\n') + 1
	start = line + strings.LastIndexAny(doc[line:at], ",[{\"") + 1
	if i := strings.LastIndex(doc[line:at], `":`); i >= 0 && line+i+2 > start {
		start = line + i + 2
	}
	start += len(doc[start:]) - len(strings.TrimLeft(doc[start:], " \t"))
	before := strings.TrimRight(doc[:start], " \t\r\n")
	if start > at || before == "" || !strings.ContainsAny(before[len(before)-1:], ":,[") {
		return 0, false
	}
	token := unquotedToken(doc[start:])
	return start, token != "" && !json.Valid([]byte(token)) && !strings.ContainsAny(token[:1], "\"'{}[],/#")
}

func unquotedToken(s string) string {
	end := strings.IndexAny(s, ",]}\r\n\"")
	if end < 0 {
		end = len(s)
	}
	return strings.TrimRight(s[:end], " \t")
}

// explainUnquoted names the member whose value lacks quotes and shows how to write it.
func explainUnquoted(doc string, start int) (at int, message, hint string) {
	token := unquotedToken(doc[start:])
	mend, _ := text.JSON(token)
	switch token {
	case "None", "nil", "undefined", "NULL", "Null":
		mend = []byte("null")
	case "True", "TRUE", "False", "FALSE":
		mend = bytes.ToLower(mend[1 : len(mend)-1])
	}
	key := keyBefore(doc[:start])
	if key == "" {
		return start, fmt.Sprintf("%s is not a JSON value", clip(token)), fmt.Sprintf("write %s", clip(string(mend)))
	}
	return start, fmt.Sprintf("the value of %s is not quoted", key), fmt.Sprintf("write %s: %s", key, clip(string(mend)))
}

// keyBefore returns the quoted key that, followed by its colon, ends s.
func keyBefore(s string) string {
	s, ok := strings.CutSuffix(strings.TrimRight(s, " \t\r\n"), ":")
	s = strings.TrimRight(s, " \t\r\n")
	if !ok || !strings.HasSuffix(s, `"`) {
		return ""
	}
	begin := strings.LastIndexByte(s[:len(s)-1], '"')
	if begin < 0 {
		return ""
	}
	return s[begin:]
}

// explainByte recognizes common mistakes by the byte at which the reader stopped.
func explainByte(doc string, at int) (message, hint string) {
	before := strings.TrimRight(doc[:at], " \t\r\n")
	var last byte
	if before != "" {
		last = before[len(before)-1]
	}
	switch c := doc[at]; {
	case last == '}' && json.Valid([]byte(before)):
		return "text follows the end of the object", "remove what comes after the last }"
	case c == '\n' || c == '\r' || c == '\t':
		return "there is a line break or tab inside a text", `write it as \n or \t, or close the quote`
	case c == '\'':
		return "a text is in single quotes", "JSON takes double quotes"
	case c == '/' || c == '#':
		return "JSON has no comments", "remove it"
	case (c == '}' || c == ']') && last == ',':
		return fmt.Sprintf("there is a comma before the %q", c), "remove the comma"
	case (c == '"' || c == '{' || c == '[') && last != ',' && last != ':' && last != 0:
		return "a comma is missing before this", "put a comma at the end of the line before"
	case c == '=':
		return "a key is followed by =", "JSON takes a colon"
	case last == '{' || last == ',':
		return "a key without quotes", `write it in double quotes: "key": value`
	}
	return "", ""
}

// clip shortens a text for a message.
func clip(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
