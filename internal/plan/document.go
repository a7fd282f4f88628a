package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
	"github.com/trellis-tasks/trellis/templates"
)

// MaxBytes is the maximum size of a plan.json or taskspec.json.
const MaxBytes = 1 << 20

// Problem is an error or a warning about a plan.
type Problem struct {
	Pointer string // JSON pointer; "" is the whole document
	Line    int    // from 1
	Column  int    // from 1, for invalid JSON; otherwise 0
	Message string
	Hint    string // what to write instead; may be ""
	Warning bool
}

// ForModel returns the problem for a model: "<pointer>: <message>", with the hint.
func (p Problem) ForModel() string {
	s := p.withPointer()
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

func (p Problem) withPointer() string {
	if p.Pointer == "" {
		return "/: " + p.Message
	}
	return p.Pointer + ": " + p.Message
}

// ForFile returns the problem for people who know the plan as file.
func (p Problem) ForFile(file string) trellis.Problem {
	message := p.Message
	if p.Pointer != "" {
		message = p.withPointer()
	}
	return trellis.Problem{File: file, Line: p.Line, Column: p.Column, Message: message, Hint: p.Hint, Warning: p.Warning}
}

// document is JSON text with the positions of its values.
type document struct {
	text       string
	root       *node
	lines      map[string]int    // line numbers by JSON pointer
	duplicates []Problem         // keys that occur twice in an object
	tool       string            // the other tool whose file it was converted from
	originals  map[string]string // JSON pointers in that file, by those of the document
}

// parseDocument parses data, or returns the problem if it is not valid JSON.
func parseDocument(data []byte) (*document, *Problem) {
	text, broken := textOf(data)
	if broken != nil {
		return nil, broken
	}
	return parseJSON(text)
}

// textOf returns the text of a file, or the problem with it.
func textOf(data []byte) (string, *Problem) {
	doc := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	switch {
	case len(data) > MaxBytes:
		return "", &Problem{Line: 1, Message: fmt.Sprintf("is larger than the %d MB that Trellis reads", MaxBytes>>20)}
	case !utf8.ValidString(doc):
		return "", &Problem{Line: 1 + strings.Count(doc[:text.InvalidUTF8(doc)], "\n"), Message: "is not UTF-8 text", Hint: "save the file as UTF-8"}
	case strings.TrimSpace(doc) == "":
		return "", &Problem{Line: 1, Message: "the file is empty"}
	}
	return doc, nil
}

func parseJSON(text string) (*document, *Problem) {
	if !json.Valid([]byte(text)) {
		p := taskdir.Diagnose("", text)
		return nil, &Problem{Line: p.Line, Column: p.Column, Message: p.Message, Hint: p.Hint}
	}
	root, err := treeOf(text)
	if err != nil {
		return nil, &Problem{Line: 1, Message: err.Error()}
	}
	return documentOf(text, root), nil
}

func documentOf(text string, root *node) *document {
	d := &document{text: text, root: root, lines: map[string]int{"": root.line}}
	root.visit("", func(pointer string, _ *node, line int, again bool) {
		if again {
			d.duplicates = append(d.duplicates, Problem{Pointer: pointer, Line: line, Message: fmt.Sprintf("appears twice, also in line %d", d.lines[pointer])})
			return
		}
		d.lines[pointer] = line
	})
	return d
}

// line returns the line of the value at a pointer, or of the nearest value that contains it.
func line(lines map[string]int, pointer string) int {
	for {
		if n, ok := lines[pointer]; ok || pointer == "" {
			return n
		}
		pointer = pointer[:max(0, strings.LastIndexByte(pointer, '/'))]
	}
}

// schemaProblems returns violations of the schema of that name, and keys that occur twice.
func (d *document) schemaProblems(schema string) []Problem {
	problems := slices.Clone(d.duplicates)
	raw, err := templates.Schema(schema)
	var found []string
	if err == nil {
		found, err = templates.Violations(raw, json.RawMessage(d.text))
	}
	if err != nil {
		panic(err) // our own schemas are valid
	}
	for _, words := range found {
		pointer, message := d.splitViolation(words)
		problems = append(problems, Problem{Pointer: pointer, Line: line(d.lines, pointer), Message: message, Hint: d.root.find(pointer).yamlHint(message)})
	}
	sortByLine(problems)
	return problems
}

// splitViolation splits "<pointer>: <message>". A key may contain a colon.
func (d *document) splitViolation(words string) (pointer, message string) {
	for at := 0; ; {
		i := strings.Index(words[at:], ": ")
		if i < 0 {
			break
		}
		at += i
		if _, ok := d.lines[words[:at]]; ok {
			return words[:at], words[at+2:]
		}
		at += 2
	}
	pointer, message, _ = strings.Cut(words, ": ")
	return strings.TrimSuffix(pointer, "/"), message
}

// sortByLine sorts problems by line.
func sortByLine(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
}
