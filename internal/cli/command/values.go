package command

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Slug returns the name of a task made of text, and prints a note if it differs. from is the flag or argument of text.
func (c *Console) Slug(text, from string) (string, error) {
	name := trellis.Slug(text)
	switch {
	case name == "":
		return "", app.WithHints(app.Usagef("%s %q leaves no name: it has no letter from a to z and no digit", from, text), "small letters, digits and dashes, as in user-auth")
	case name != text:
		Note(c, "the name becomes %s", name)
	}
	return name, nil
}

// CheckDevType checks the type of work that a flag or argument, from, gives for a task.
func CheckDevType(kind, from string) error {
	if !slices.Contains(trellis.DevTypes, kind) {
		return app.WithNearest(app.Usagef("%s %q is not one of %s", from, kind, strings.Join(trellis.DevTypes, ", ")), kind, trellis.DevTypes)
	}
	return nil
}

// CheckPriority checks a priority; "" stands for the default.
func CheckPriority(p string) error {
	if p != "" && !slices.Contains(trellis.Priorities, p) {
		return app.Usagef("unknown priority %q (one of %s)", p, strings.Join(trellis.Priorities, ", "))
	}
	return nil
}
