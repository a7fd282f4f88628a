package git_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/gittest"
)

func TestDiff(t *testing.T) {
	b := gittest.New(t)
	from, err := b.Repo.Refs().Head(t.Context(), b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	b.Write("sub/new.txt", "one\ntwo\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "second")
	to, err := b.Repo.Refs().Head(t.Context(), b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for stat, want := range map[bool]string{false: "+++ b/sub/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n", true: " sub/new.txt | 2 ++\n 1 file changed, 2 insertions(+)\n"} {
		var got strings.Builder
		if err := b.Repo.History().Diff(t.Context(), from, to, stat, &got); err != nil || !strings.HasSuffix(got.String(), want) {
			t.Errorf("stat %v: got %q, %v, want %q at its end", stat, got.String(), err, want)
		}
	}
	if err := b.Repo.History().Diff(t.Context(), "--output=x", to, false, &strings.Builder{}); err == nil {
		t.Error("an option in place of a commit was taken")
	}
}
