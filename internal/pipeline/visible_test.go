package pipeline

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edge S11: a commit message contains no character that controls a terminal or reverses the direction of text.
func TestCommitMessageIsVisible(t *testing.T) {
	in := commitIn{Task: "02-01-bye"}
	in.Job.CommitType, in.Job.Title = "feat", "say\x1b[2J bye\a\u202e"
	if got, want := message(in), "feat: say␛[2J bye␇\\u202e\n\nTask: 02-01-bye"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	in.Job.Title = strings.Repeat("\u202e", 100)
	if got := message(in); got != trellis.Visible(got) {
		t.Errorf("cut off it is %q", got)
	}
}
