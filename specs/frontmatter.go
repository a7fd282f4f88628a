package specs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/frontmatter"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"go.yaml.in/yaml/v3"
)

// decodeFrontMatter decodes the YAML at the beginning of a page into out, and returns the text after it, and the line of each key. A
// page without front matter is all body. If the YAML is invalid, or has one of keys but would not be read as front matter,
// problem says where, and out may be partly filled.
func decodeFrontMatter(name string, data []byte, keys []string, out any) (body []byte, lines map[string]int, problem *trellis.Problem) {
	block, rest, problem := frontmatter.Cut(data, keys)
	body = data[rest:]
	var doc yaml.Node
	if problem == nil {
		problem = decode(block, &doc, out)
	}
	if problem != nil {
		problem.File = name
		return body, nil, problem
	}
	return body, linesOf(&doc), nil
}

func decode(block []byte, doc *yaml.Node, out any) *trellis.Problem {
	err := yaml.Unmarshal(block, doc)
	if err == nil && (len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null") {
		return nil
	}
	if err == nil && doc.Content[0].Kind != yaml.MappingNode {
		return &trellis.Problem{Line: 1, Message: "the front matter is not a list of keys and values"}
	}
	if err == nil {
		err = doc.Decode(out)
	}
	if err != nil {
		return yamlProblem(block, err)
	}
	return nil
}

// linesOf returns the lines of a document's keys.
func linesOf(doc *yaml.Node) map[string]int {
	lines := map[string]int{}
	for _, mapping := range doc.Content {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			lines[mapping.Content[i].Value] = mapping.Content[i].Line
		}
	}
	return lines
}

// yamlProblem returns the problem of invalid YAML, with its line in the page.
func yamlProblem(block []byte, err error) *trellis.Problem {
	if types, ok := errors.AsType[*yaml.TypeError](err); ok {
		err = errors.New(types.Errors[0])
	}
	p := frontmatter.Wrong(block, err)
	if strings.Contains(p.Message, "alphabetic or numeric") {
		p.Message += " (a value that begins with * needs quotes)"
	}
	return p
}

// globList is a list of globs, written as a list or as one text separated by commas.
type globList []string

func (p *globList) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return n.Decode((*[]string)(p))
	}
	var text string
	if err := n.Decode(&text); err != nil {
		return fmt.Errorf("line %d: globs are a list of patterns", n.Line)
	}
	for _, g := range splitAtCommas(text) {
		if g = strings.TrimSpace(g); g != "" {
			*p = append(*p, g)
		}
	}
	return nil
}

// splitAtCommas splits a text at the commas outside braces.
func splitAtCommas(text string) (parts []string) {
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, text[from:i])
				from = i + 1
			}
		}
	}
	return append(parts, text[from:])
}
