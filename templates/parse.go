package templates

import (
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The sections of a template.
const (
	system       = "system"
	form         = "form"
	instructions = "instructions"
	prompt       = "prompt"
)

type kind int

const (
	text    kind = iota
	value        // {{name}}
	fence        // {{data name}}
	cond         // {{if name}} body {{end}}
	include      // {{include part}}
)

// literalWord is the word before a name that is output as a placeholder: {{literal item}} is {{item}}.
const literalWord = "literal"

type node struct {
	kind kind
	text string // text: the text; else the name
	body []node // cond: the conditional part; include: the included part
	line int
}

// template is a parsed template including its parts and overrides.
type template struct {
	slots    []slot
	sections map[string][]node

	ownSystem bool // the system section comes from the project
}

func (t *template) slot(name string) (slot, bool) {
	for _, s := range t.slots {
		if s.Name == name {
			return s, true
		}
	}
	return slot{}, false
}

// addFile parses a file into the template. Only embedded files declare slots in their header.
func (t *template) addFile(file, src string, embedded bool) error {
	header, body, line := cutHeader(strings.ReplaceAll(src, "\r\n", "\n"))
	if embedded {
		t.declareSlots(header)
	}
	for _, s := range cutSections(body, line) {
		if s.name != system && s.name != instructions && s.name != prompt && (s.name != form || !embedded) {
			return problem(file, s.line-1, "a section is called system, instructions or prompt", "unknown section %q", s.name)
		}
		p := parser{t: t, embedded: embedded, file: file, section: s.name, rest: s.text, line: s.line}
		nodes, err := p.parseNodes(0)
		if err != nil {
			return err
		}
		t.sections[s.name] = nodes
	}
	return nil
}

// cutHeader splits off the comment that a template may begin with. line is the first line of the body.
func cutHeader(src string) (header, body string, line int) {
	trimmed := strings.TrimLeft(strings.TrimPrefix(src, "\ufeff"), " \t\n")
	if !strings.HasPrefix(trimmed, "<!--") {
		return "", src, 1
	}
	header, body, found := strings.Cut(trimmed, "-->")
	if !found {
		return "", src, 1
	}
	body = strings.TrimLeft(body, " \t")
	body = strings.TrimPrefix(body, "\n")
	return header, body, 1 + strings.Count(src[:len(src)-len(body)], "\n")
}

// declareSlots reads the slots from a header.
func (t *template) declareSlots(header string) {
	_, list, _ := strings.Cut(header, "\nSlots:\n")
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) > 3 {
			t.slots = append(t.slots, slot{f[0], f[1] == "required", f[2] == "data", strings.Join(f[3:], " ")})
		}
	}
}

type section struct {
	name, text string
	line       int
}

// cutSections splits a template's body at its section lines.
func cutSections(body string, line int) (list []section) {
	cur := section{name: prompt, line: line}
	start, named := 0, false
	for at := 0; at < len(body); line++ {
		next := len(body)
		if i := strings.IndexByte(body[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		name, ok := strings.CutPrefix(strings.TrimSpace(body[at:next]), "=== ")
		name, end := strings.CutSuffix(name, " ===")
		if ok && end {
			if cur.text = body[start:at]; named || strings.TrimSpace(cur.text) != "" {
				list = append(list, cur)
			}
			cur, start, named = section{name: name, line: line + 1}, next, true
		}
		at = next
	}
	cur.text = body[start:]
	return append(list, cur)
}

var placeholder = trellis.Pattern(`\{\{(?:(data|if|include|literal) )?([a-z_]+)\}\}`)

type parser struct {
	t        *template
	embedded bool // an embedded file
	file     string
	section  string
	rest     string
	line     int
}

// consume consumes n bytes and returns them.
func (p *parser) consume(n int) string {
	s := p.rest[:n]
	p.line += strings.Count(s, "\n")
	p.rest = p.rest[n:]
	return s
}

// parseNodes parses up to the {{end}} of the {{if}} in line opened or, if that is 0, to the end of the section.
func (p *parser) parseNodes(opened int) (list []node, err error) {
	for {
		m := placeholder().FindStringSubmatchIndex(p.rest)
		if m == nil {
			if opened > 0 {
				return nil, problem(p.file, opened, "close it with {{end}}", "this {{if}} has no {{end}}")
			}
			return append(list, node{kind: text, text: p.consume(len(p.rest))}), nil
		}
		n := node{text: p.rest[m[4]:m[5]], kind: value}
		word := ""
		if m[2] >= 0 {
			word = p.rest[m[2]:m[3]]
		}
		begin, end := extendToLine(p.rest, m[0], m[1], word == "if" || word == "include" || n.text == "end" || n.text == instructions || n.text == form)
		list = append(list, node{kind: text, text: p.consume(begin)})
		n.line = p.line
		p.consume(end - begin)
		if word == "" && n.text == "end" {
			if opened == 0 {
				return nil, problem(p.file, n.line, "take it out, or open an {{if NAME}} before it", "{{end}} without {{if}}")
			}
			return list, nil
		}
		if n, err = p.parseConstruct(n, word); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
}

// extendToLine extends a placeholder that stands for whole lines to the end of its line, if it is alone on it.
func extendToLine(s string, begin, end int, whole bool) (int, int) {
	if !whole || begin > 0 && s[begin-1] != '\n' {
		return begin, end
	}
	if end < len(s) && s[end] == '\n' {
		return begin, end + 1
	}
	return begin, end
}

// parseConstruct checks a placeholder and parses the rest of its construct.
func (p *parser) parseConstruct(n node, word string) (_ node, err error) {
	if word == "include" {
		n.kind = include
		n.body, err = p.parsePart(n)
		return n, err
	}
	if word == literalWord {
		n.kind, n.text = text, "{{"+n.text+"}}"
		return n, nil
	}
	s, known := p.t.slot(n.text)
	if n.text == "nonce" || p.section == prompt && (n.text == instructions || n.text == form && p.t.sections[form] != nil) {
		known = true
	}
	if !known || word != "" && s.Name == "" {
		return n, problem(p.file, n.line, "known are "+p.knownPlaceholders(), "unknown placeholder {{%s}}", strings.TrimSpace(word+" "+n.text))
	}
	switch word {
	case "if":
		n.kind = cond
		n.body, err = p.parseNodes(n.line)
	case "data":
		n.kind = fence
	default:
		if s.Data {
			err = problem(p.file, n.line, "write "+s.placeholder(), "{{%s}} is data and has to be in a fence", n.text)
		}
	}
	return n, err
}

func (p *parser) knownPlaceholders() string {
	list := []string{"{{instructions}}", "{{nonce}}"}
	for _, s := range p.t.slots {
		list = append(list, s.placeholder())
	}
	return strings.Join(list, ", ")
}

// parsePart parses the same section of an embedded part. The part's slots become the template's.
func (p *parser) parsePart(n node) ([]node, error) {
	src, err := files.ReadFile("parts/" + n.text + suffix)
	if err != nil {
		return nil, problem(p.file, n.line, "parts are data, task, planned, shared and limits", "there is no part %q", n.text)
	}
	header, body, line := cutHeader(string(src))
	part := &template{slots: nil}
	part.declareSlots(header)
	for _, s := range part.slots {
		if _, known := p.t.slot(s.Name); known {
			continue
		}
		if !p.embedded {
			return nil, problem(p.file, n.line, "known are "+p.knownPlaceholders(), "the part %q needs %s, which this prompt has no value for", n.text, s.placeholder())
		}
		p.t.slots = append(p.t.slots, s)
	}
	for _, s := range cutSections(body, line) {
		if s.name == p.section {
			inner := parser{t: p.t, embedded: p.embedded, file: "templates/parts/" + n.text + suffix, section: s.name, rest: s.text, line: s.line}
			return inner.parseNodes(0)
		}
	}
	return nil, problem(p.file, n.line, "it belongs to the system section", "the part %q has nothing for the section %s", n.text, p.section)
}
