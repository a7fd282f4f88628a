package delivery_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/pipeline"
)

// failing returns an open pull request whose checks fail at the commit head.
func failing(head string, names ...string) delivery.OpenPR {
	pr := delivery.OpenPR{PR: &forge.PR{HeadSHA: head}}
	for _, name := range names {
		pr.Status.Failed = append(pr.Status.Failed, forge.Check{Name: name, URL: "https://x.example/" + name})
	}
	return pr
}

// A check causes one reaction for each commit, whatever other checks have failed when they are read again.
func TestReactedOnce(t *testing.T) {
	t.Parallel()
	past := delivery.NewFindings(failing("1234", "lint", "a, b", "test"), pipeline.Reactions{}, false).Reactions()
	if want := []string{"checks of 1234: a, b, lint, test"}; !slices.Equal(past.Seen, want) {
		t.Fatalf("got %q, want %q", past.Seen, want)
	}
	for name, c := range map[string]struct {
		now  delivery.OpenPR
		want []string
	}{
		"the same":         {failing("1234", "test", "a, b", "lint"), nil},
		"one was repeated": {failing("1234", "test"), nil},
		"with a comma":     {failing("1234", "a, b"), nil},
		"a part of a name": {failing("1234", "tes"), []string{"checks of 1234: tes"}},
		"one that is late": {failing("1234", "test", "sonar"), []string{"checks of 1234: sonar"}},
		"another commit":   {failing("5678", "test"), []string{"checks of 5678: test"}},
	} {
		if got := delivery.NewFindings(c.now, past, false).New(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := delivery.NewFindings(failing("1234", "test"), past, true).New(); !slices.Equal(got, []string{"checks of 1234: test"}) {
		t.Errorf("asked for again: got %q", got)
	}
}

// deaf is a forge whose logs can't be read.
type deaf struct{ delivery.Forge }

func (deaf) Log(context.Context, forge.Check) (string, error) {
	return "", errors.New("GitLab answers 502")
}

// A log that can't be read is not taken for an empty one: the agent that has to repair the check gets the reason.
func TestLogThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	found := delivery.NewFindings(failing("1234", "test"), pipeline.Reactions{}, false)
	if _, err := found.Write(t.Context(), deaf{}, nil, &durable.Disk{}, dir, 2); err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(filepath.Join(dir, "run/reactions/2.md"))
	if err != nil || !strings.Contains(string(said), "The check test failed.\nWhat it printed could not be read: GitLab answers 502") {
		t.Errorf("got %q, %v", said, err)
	}
}
