package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/editor"
)

// requirementForm is the initial text in the editor. Its own lines are removed from what the person
// writes; headings of theirs stay.
const requirementForm = `
# What do you want? The first words become the name of the task.
#
# It helps to write: the result that you expect, how to tell that it works, what must not change.
# These four lines are removed. If you write nothing else, nothing is planned.
`

// writeRequirement has a person write the requirement in their editor. draft keeps the text.
func writeRequirement(a *command.Console) (text string, draft *editor.Draft, err error) {
	if draft, err = editor.Open(a, "requirement.md", []byte(requirementForm)); err != nil {
		return "", nil, err
	}
	data, err := draft.Edit()
	if err != nil {
		return "", nil, app.WithHints(err, append(app.HintsOf(err), "trellis plan")...) // err says where the text is
	}
	form := strings.Split(requirementForm, "\n")
	var lines []string
	for line := range strings.SplitSeq(string(data), "\n") {
		if bare := strings.TrimRight(line, "\r "); bare == "" || !slices.Contains(form, bare) {
			lines = append(lines, line)
		}
	}
	if text = strings.TrimSpace(strings.Join(lines, "\n")); text == "" {
		if err := draft.Discard(); err != nil {
			return "", nil, err
		}
		return "", nil, app.WithHints(app.Usagef("nothing was written, so nothing is planned"), "trellis plan")
	}
	return text + "\n", draft, checkRequirement("what you wrote", text)
}

// closeDraft discards the draft if err is nil, as its text is stored by then. Otherwise it returns err with the path of the draft.
func closeDraft(draft *editor.Draft, err error) error {
	switch {
	case draft == nil:
		return err
	case err == nil:
		return draft.Discard()
	}
	return app.WithHints(fmt.Errorf("%w; what you wrote is in %s", err, draft.Path()), app.HintsOf(err)...)
}
