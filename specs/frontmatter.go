package specs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"go.yaml.in/yaml/v3"
)

// frontMatter decodes the YAML between a first line of three dashes and the next one into out, and
// returns what follows. A page without such lines has no front matter and is all body. When the YAML
// is bad the problem says where, and out may be filled in part.
func frontMatter(name string, data []byte, out any) (body []byte, problem *trellis.Problem) {
	block, body := split(data)
	var doc yaml.Node
	err := yaml.Unmarshal(block, &doc)
	if err == nil && len(doc.Content) == 0 {
		return body, nil
	}
	if err == nil && doc.Content[0].Kind != yaml.MappingNode {
		return body, &trellis.Problem{File: name, Line: 1, Message: "the front matter is no list of keys and values"}
	}
	if err == nil {
		err = doc.Decode(out)
	}
	if err != nil {
		return body, yamlProblem(name, err)
	}
	return body, nil
}

// split cuts a page at its front matter; the block is empty when there is none.
func split(data []byte) (block, body []byte) {
	page := bytes.TrimPrefix(data, []byte("\ufeff"))
	first, rest, ok := bytes.Cut(page, []byte("\n"))
	if !ok || !isFence(first) {
		return nil, page
	}
	for at := 0; at < len(rest); {
		line, after, _ := bytes.Cut(rest[at:], []byte("\n"))
		if isFence(line) {
			return rest[:at], after
		}
		at = len(rest) - len(after)
	}
	return nil, page
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r")) == "---" }

// yamlProblem tells where in the page the YAML is bad; its lines begin after the first fence.
func yamlProblem(name string, err error) *trellis.Problem {
	if types := (*yaml.TypeError)(nil); errors.As(err, &types) {
		err = errors.New(types.Errors[0])
	}
	line, message := text.YAMLError(err)
	p := trellis.Problem{File: name, Line: line + 1, Message: "front matter: " + message}
	if strings.Contains(message, "alphabetic or numeric") {
		p.Message += " (a value that begins with * needs quotes)"
	}
	return &p
}

// patterns are globs, written as a list or as one text with commas between them.
type patterns []string

func (p *patterns) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return n.Decode((*[]string)(p))
	}
	var text string
	if err := n.Decode(&text); err != nil {
		return fmt.Errorf("line %d: globs are a list of patterns", n.Line)
	}
	for _, g := range atCommas(text) {
		if g = strings.TrimSpace(g); g != "" {
			*p = append(*p, g)
		}
	}
	return nil
}

// atCommas cuts a text at the commas that stand outside braces.
func atCommas(text string) (parts []string) {
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
