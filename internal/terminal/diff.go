package terminal

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Diff is the unified diff from one text to another, both of the file name; "" when they are the same. What a terminal
// would obey is blanked out.
func Diff(name, from, to string) string {
	_, text, _ := strings.Cut(string(diff.Diff("a/"+name, []byte(from), "b/"+name, []byte(to))), "\n") // the first line is that of the command
	return trellis.Visible(strings.ReplaceAll(text, "\r\n", "\n"))
}
