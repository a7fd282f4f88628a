package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// parseYAML reads YAML as the JSON that it stands for, with the lines of the YAML. Words and numbers that YAML readers interpret
// differently are reported as problems; none of them is guessed at.
func parseYAML(text string) (*document, []Problem) {
	top, broken := yamlOf(text)
	if broken != nil {
		return nil, []Problem{*broken}
	}
	r := yamlReader{bytesLeft: 4 * MaxBytes, last: 1 + strings.Count(strings.TrimRight(text, "\n"), "\n")}
	root := r.value(top, 0)
	if r.limitProblem != nil {
		return nil, []Problem{*r.limitProblem}
	}
	sortByLine(r.problems)
	return documentOf(root.flat(), root), r.problems
}

// yamlOf parses a text that is a single document.
func yamlOf(text string) (*yaml.Node, *Problem) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, &Problem{Line: 1, Message: "the file is empty"}
	}
	if err != nil {
		return nil, yamlProblem(text, err)
	}
	if err := dec.Decode(&more); err != io.EOF {
		return nil, &Problem{Line: max(1, min(more.Line, 1+strings.Count(text, "\n"))), Message: "more than one YAML document", Hint: "take out what follows ---"}
	}
	return doc.Content[0], nil
}

// yamlProblem returns the problem of a text that is not YAML: the line, and the most likely cause.
func yamlProblem(src string, err error) *Problem {
	line, message := text.YAMLError(err)
	p := &Problem{Line: badLine(src, line), Message: "not valid YAML: " + message}
	lines := strings.Split(src, "\n")
	at := strings.TrimRight(lines[min(p.Line, len(lines))-1], "\r")
	indent := at[:len(at)-len(strings.TrimLeft(at, " \t"))]
	switch {
	case trellis.ConflictAt(at) == 0:
		p.Message, p.Hint = "not valid YAML: "+trellis.MergeConflict, trellis.MendMergeConflict
	case strings.Contains(indent, "\t"):
		p.Message, p.Hint = "not valid YAML: there is a tab before the text", "indent with spaces"
	case strings.Contains(at, ": {{") || strings.Contains(at, "- {{"):
		p.Hint = "quote text that begins with {{"
	case strings.Contains(p.Message, "mapping values are not allowed"):
		p.Hint = `quote text that has ": " in it, or write it below a |`
	}
	return p
}

// badLine returns the line that makes a text invalid YAML: the text before it is valid. The parser's own line, which is often
// that of the enclosing block, is returned if the search would take too long.
func badLine(text string, parserLine int) int {
	lines := strings.SplitAfter(text, "\n")
	size := len(text)
	for n := len(lines) - 1; n > 0 && len(lines)*len(text) < 32*MaxBytes; n-- {
		size -= len(lines[n])
		var doc yaml.Node
		if yaml.Unmarshal([]byte(text[:size]), &doc) == nil {
			return n + 1
		}
	}
	return min(parserLine, len(lines))
}

// yamlReader converts a YAML document to a tree.
type yamlReader struct {
	last         int      // the last line of the text
	bytesLeft    int      // how many bytes the rest may expand to: aliases repeat their anchors
	aliases      int      // nesting of aliases around the value
	limitProblem *Problem // set if the document is too large or too deep
	problems     []Problem
}

func (r *yamlReader) add(n *yaml.Node, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{Line: r.line(n), Message: fmt.Sprintf(format, args...), Hint: hint})
}

// line returns the line of a value. An empty value may be located after the end.
func (r *yamlReader) line(n *yaml.Node) int { return min(n.Line, r.last) }

func (r *yamlReader) value(n *yaml.Node, depth int) *node {
	at := r.line(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
		r.aliases++
		defer func() { r.aliases-- }()
	}
	out := &node{line: at, text: "null"}
	r.bytesLeft -= len(n.Value) + 4
	if r.aliases > 0 {
		r.bytesLeft -= 60 // approximate memory for even the smallest value
	}
	if r.bytesLeft < 0 && r.limitProblem == nil {
		r.limitProblem = &Problem{Line: at, Message: fmt.Sprintf("its aliases make more than %d MB of it", 4*MaxBytes>>20)}
	}
	if depth > maxDepth && r.limitProblem == nil {
		r.limitProblem = &Problem{Line: at, Message: errDeep.Error()}
	}
	if r.limitProblem != nil {
		return out
	}
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.MappingNode && tag == "!!map":
		r.mapping(n, out, depth)
	case n.Kind == yaml.SequenceNode && tag == "!!seq":
		out.open, out.text = '[', "["
		for _, item := range n.Content {
			out.items = append(out.items, r.value(item, depth+1))
		}
	case n.Kind == yaml.ScalarNode:
		r.scalar(n, out, tag)
	default:
		r.add(n, "leave it out", "the tag %s means nothing here", n.Tag)
	}
	return out
}

// mapping sets the members of out to those of n, followed by merged ones (<<).
func (r *yamlReader) mapping(n *yaml.Node, out *node, depth int) {
	out.open, out.text = '{', "{"
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		for k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.ShortTag() == "!!merge" {
			merged = append(merged, v)
			continue
		}
		if m := r.key(k); m != nil {
			m.node = r.value(v, depth+1)
			out.members = append(out.members, *m)
		}
	}
	for _, v := range merged {
		r.merge(v, out, depth)
	}
}

// merge adds the members of a mapping, or of a list of mappings, whose keys out lacks.
func (r *yamlReader) merge(v *yaml.Node, out *node, depth int) {
	from := r.value(v, depth+1)
	sources := from.items
	if from.open == '{' {
		sources = []*node{from}
	}
	if from.open == 0 || slices.ContainsFunc(sources, func(s *node) bool { return s.open != '{' }) {
		r.add(v, "name it with &name where it is written, and with <<: *name here", "<< takes in keys and values, or a list of such")
		return
	}
	for _, s := range sources {
		for _, m := range s.members {
			if out.member(m.key) == nil {
				out.members = append(out.members, m)
			}
		}
	}
}

func (r *yamlReader) key(k *yaml.Node) *member {
	if k.Kind != yaml.ScalarNode {
		r.add(k, "quote text that begins with {{, [ or {", "a key has to be text")
		return nil
	}
	switch tag := k.ShortTag(); {
	case tag == "!!null", tag == "!!bool", tag == "!!int", tag == "!!float":
		r.add(k, "quote it: "+jsonText(k.Value), "the key %s is not text", k.Value)
		return nil
	case isPlain(k) && ambiguousMeaning(k.Value) != "":
		r.add(k, "quote it: "+jsonText(k.Value), "the key %s is text here, and %s to other readers of YAML", k.Value, ambiguousMeaning(k.Value))
		r.problems[len(r.problems)-1].Warning = true
	}
	return &member{key: k.Value, text: jsonText(k.Value), line: r.line(k)}
}

// scalar sets out to a text, a number, true, false or null.
func (r *yamlReader) scalar(n *yaml.Node, out *node, tag string) {
	if isPlain(n) {
		out.plain = n.Value
	}
	out.block = n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	switch lower := strings.ToLower(n.Value); tag {
	case "!!null":
		return
	case "!!bool":
		out.text = lower
		if lower != "true" && lower != "false" {
			r.add(n, "write true or false", "%s is neither true nor false", n.Value)
		}
	case "!!int", "!!float":
		if out.text = n.Value; !json.Valid([]byte(n.Value)) {
			out.text = "0"
			r.add(n, "quote it where text is meant: "+jsonText(n.Value)+"; else write it in decimal digits", "%s is not the same number to every reader of YAML", n.Value)
		}
	case "!!str", "!!timestamp", "!!merge":
		out.text = jsonText(n.Value)
	default:
		r.add(n, "leave it out", "the tag %s means nothing here", n.Tag)
	}
}

func isPlain(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
}

// ambiguousMeaning returns how YAML 1.1 readers interpret an unquoted word, "" if they agree that it is text.
func ambiguousMeaning(word string) string {
	switch strings.ToLower(word) {
	case "yes", "on":
		return "true"
	case "no", "off":
		return "false"
	}
	return ""
}

// jsonText returns a text as a JSON string.
func jsonText(s string) string {
	raw, err := text.JSON(s)
	if err != nil {
		panic(err) // every text can be encoded
	}
	return string(raw)
}

// yamlHint returns how to write a YAML value that the schema rejects.
func (n *node) yamlHint(message string) string {
	switch {
	case n == nil:
	case n.block && strings.Contains(message, "must be one line"):
		return "a text below | or > ends with a line break: use |- or >-, and keep it to one line"
	case n.open != 0 || n.plain == "" && n.text != "null":
	case strings.HasPrefix(message, "must be true or false") && ambiguousMeaning(n.plain) != "":
		return "write " + ambiguousMeaning(n.plain)
	case strings.HasPrefix(message, "must be a string") && n.plain != "":
		return "quote it, if it is text: " + jsonText(n.plain)
	}
	return ""
}

// ambiguousWords warns of unquoted words that other YAML readers don't interpret as text, except where problems already has a problem.
func (d *document) ambiguousWords(problems []Problem) (more []Problem) {
	d.root.visit("", func(pointer string, n *node, line int, again bool) {
		if ambiguousMeaning(n.plain) == "" || again || slices.ContainsFunc(problems, func(p Problem) bool { return p.Pointer == pointer }) {
			return
		}
		more = append(more, Problem{Pointer: pointer, Line: line, Warning: true, Hint: "quote it: " + jsonText(n.plain),
			Message: fmt.Sprintf("%s is text here, and %s to other readers of YAML", n.plain, ambiguousMeaning(n.plain))})
	})
	return more
}
