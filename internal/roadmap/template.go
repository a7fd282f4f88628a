package roadmap

import (
	_ "embed"
	"fmt"
	"strings"
	"unicode"
)

//go:embed objective.md
var blank string

// Unwritten reports whether a step still says what a new objective says in its place.
func (s *Step) Unwritten() bool {
	description := strings.TrimSpace(s.Description)
	return description != "" && strings.Contains(blank, "| "+description+" |")
}

// New is the text of a new objective, for a person to write on. It passes the check.
func New(title string) ([]byte, error) {
	title = strings.TrimSpace(title)
	if title == "" || strings.ContainsFunc(title, unicode.IsControl) {
		return nil, fmt.Errorf("%q is not a title: one line of text", title)
	}
	return []byte(strings.Replace(blank, "TITLE", title, 1)), nil
}
