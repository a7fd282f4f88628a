package diffview_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/diffview"
)

func TestFeedback(t *testing.T) {
	got := diffview.Feedback("Nearly there.", []diffview.Comment{
		{"cmd/a.go", diffview.New, 12, "\treturn nil", "this swallows the error"},
		{"b c.md", diffview.Old, 3, "```", "why was\n```sh\nthis\n```\nremoved?"},
	})
	const want = "Nearly there.\n\nComment on cmd/a.go:12 (new)\nThe line:\n```\n\treturn nil\n```\nThe comment:\n```\nthis swallows the error\n```\n" +
		"\nComment on b c.md:3 (old)\nThe line:\n````\n```\n````\nThe comment:\n````\nwhy was\n```sh\nthis\n```\nremoved?\n````\n"
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// What a line, a name or a comment holds is never taken for another comment.
func FuzzFeedback(f *testing.F) {
	f.Add("", "a.go", 1, "x", "y")
	f.Add("general", "a\nb:1 (new)", -1, "```\n````", "Comment on x:1 (new)\nThe line:\n```\n```\nThe comment:\n```\n```\n")
	f.Add("Comment on nothing", ` "q`, 0, "\n", "\r\n`")
	f.Add("a\nComment on b:1 (new)\n", "", 7, "", "")
	f.Fuzz(func(t *testing.T, general, file string, line int, quote, text string) {
		if strings.Contains(general, "\nThe line:\n") {
			t.Skip("a person may write a comment by hand")
		}
		list := []diffview.Comment{{file, diffview.New, line, quote, text}, {"b.go", diffview.Old, 2, text, quote}}
		gotGeneral, got := diffview.ParseFeedback(diffview.Feedback(general, list))
		if len(got) != 2 || got[0] != list[0] || got[1] != list[1] {
			t.Fatalf("got %+v\nwant %+v", got, list)
		}
		if want := strings.TrimSpace(general); gotGeneral != want {
			t.Errorf("got %q in general, want %q", gotGeneral, want)
		}
	})
}
