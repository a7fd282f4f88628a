package roadmap

import (
	_ "embed"
	"fmt"
	"strings"
	"unicode"
)

//go:embed objective.md
var objectiveTemplate string

// HasTemplateText reports whether a step still has a description of the template for new objectives.
func (s *Step) HasTemplateText() bool {
	description := strings.TrimSpace(s.Description)
	return description != "" && strings.Contains(objectiveTemplate, "| "+description+" |")
}

// New returns the text of a new objective for a person to fill in. It passes the check.
func New(title string) ([]byte, error) {
	title = strings.TrimSpace(title)
	if title == "" || strings.ContainsFunc(title, unicode.IsControl) {
		return nil, fmt.Errorf("%q is not a title: one line of text", title)
	}
	return []byte(strings.Replace(objectiveTemplate, "TITLE", title, 1)), nil
}
