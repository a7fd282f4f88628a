package diffview_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/diffview"
)

func TestCommentsFindTheirLines(t *testing.T) {
	const diff = "diff --git a/a.go b/b.go\nrename from a.go\nrename to b.go\n--- a/a.go\n+++ b/b.go\n@@ -10,3 +10,3 @@ func f() {\n same\n-old\n+new\n more\n"
	for _, c := range []struct {
		file  string
		side  diffview.Side
		line  int
		quote string
		there bool
	}{
		{"b.go", diffview.Before, 11, "old", true}, {"b.go", diffview.Now, 11, "new", true}, {"b.go", diffview.Now, 10, "same", true}, {"b.go", diffview.Before, 12, "more", true},
		{"a.go", diffview.Before, 11, "", false}, {"b.go", diffview.Now, 13, "", false}, {"b.go", diffview.Now, 0, "", false}, {"b.go", "both", 11, "", false}, {"../b.go", diffview.Now, 11, "", false},
	} {
		got := diffview.Comment{File: c.file, Side: c.side, Line: c.line}
		there := false
		err := diffview.Read(strings.NewReader(diff), func(f *diffview.File) error {
			there = got.Locate(f)
			return nil
		})
		if err != nil || there != c.there || got.Quote != c.quote {
			t.Errorf("%s: got %v with %q, %v", got.Place(), there, got.Quote, err)
		}
	}
}

func TestFeedback(t *testing.T) {
	got := diffview.Feedback(" All in all: fine. \n", []*diffview.Comment{
		{File: "a b.go", Side: diffview.Now, Line: 7, Quote: "x := 1", Text: "Say ``` what.\nTwice."},
		{File: "new\nline", Side: diffview.Before, Line: 1, Quote: strings.Repeat("x", 1000), Text: "no"}})
	const want = "All in all: fine.\n\nComment on a b.go:7 (new)\nThe line:\n```\nx := 1\n```\nThe comment:\n````\nSay ``` what.\nTwice.\n````\n\nComment on \"new\\nline\":1 (old)\nThe line:\n```\nxxx"
	if !strings.HasPrefix(got, want) || len(got) > len(want)+500 {
		t.Errorf("got\n%s", got)
	}
}

// A megabyte of backticks is fenced quickly.
func TestFenceOfMany(t *testing.T) {
	const many = 1 << 20
	if got := diffview.Feedback("", []*diffview.Comment{{File: "a", Side: diffview.Now, Line: 1, Text: strings.Repeat("`", many)}}); len(got) < 3*many {
		t.Errorf("got %d bytes", len(got))
	}
}

// No comment and no quoted line ends its fence.
func FuzzFeedback(f *testing.F) {
	f.Add("a.go", "x := 1", "say what")
	f.Add("a\n```", "````\n```", "```\nThe comment:\n```\nno\n```\n")
	f.Fuzz(func(t *testing.T, file, quote, said string) {
		if len(quote) > 300 { // longer quotes are cut
			return
		}
		rest := diffview.Feedback("", []*diffview.Comment{{File: file, Side: diffview.Now, Line: 3, Quote: quote, Text: said}})
		place, rest, _ := strings.Cut(rest, "\n")
		if !strings.HasPrefix(place, "Comment on ") || !strings.HasSuffix(place, ":3 (new)") {
			t.Fatalf("it is about %q", place)
		}
		rest = unfenced(t, rest, "The line:\n", quote)
		if rest = unfenced(t, rest, "The comment:\n", said); rest != "" {
			t.Errorf("%q comes after it", rest)
		}
	})
}

// unfenced returns what follows word and a fenced text in rest. The text ends before the first line that equals its fence.
func unfenced(t *testing.T, rest, word, want string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(rest, word)
	fence, body, _ := strings.Cut(rest, "\n")
	got, rest, closed := strings.Cut("\n"+body, "\n"+fence+"\n")
	if got = strings.TrimPrefix(got, "\n"); !ok || !closed || strings.Trim(fence, "`") != "" || got != want {
		t.Fatalf("got %q in %q, want %q", got, fence, want)
	}
	return rest
}
