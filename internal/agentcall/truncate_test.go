package agentcall

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile are texts that take more bytes in a record than they have.
var hostile = []string{"", "short", strings.Repeat("<", 1000), strings.Repeat("ü\"\\\n\x01\u2028", 200), strings.Repeat("a\xff", 500), strings.Repeat("😀", 300)}

// recorded returns the number of bytes that a text takes in a record, without its quotes.
func recorded(t *testing.T, s string) int {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw) - 2
}

// A truncated text takes no more bytes in a record than it may.
func TestWithin(t *testing.T) {
	for _, s := range hostile {
		got := Truncate(s, 100)
		if recorded(t, got) > 100+len("…") || !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) || utf8.ValidString(s) != utf8.ValidString(got) && got == s {
			t.Errorf("%.20q: got %d bytes: %q", s, recorded(t, got), got)
		}
		if len(s) < 15 && got != s {
			t.Errorf("got %q of %q", got, s)
		}
	}
}

func TestFew(t *testing.T) {
	list := slices.Repeat([]string{strings.Repeat("<", 1000)}, 30)
	got := TruncateList(slices.Clone(list), 5)
	if len(got) != 5 || got[4] != "and 26 more" {
		t.Errorf("got %d: %.40q", len(got), got)
	}
	if n := recorded(t, strings.Join(got, "")); n > 5*(maxSentence+len("…")) {
		t.Errorf("it takes %d bytes", n)
	}
	if got := TruncateList([]string{"a", "b"}, 2); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
	if got := TruncateList(nil, 2); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

// An excerpt is the end of a text, has only whole characters, and takes no more bytes in a record than it may.
func TestExcerpt(t *testing.T) {
	for _, s := range append(hostile, strings.Repeat("a", 5000)+"end", strings.Repeat("<", 5000)+"end") {
		got := excerpt(s)
		if recorded(t, got) > excerptBytes+len("…") || !strings.HasSuffix(strings.TrimSpace(s), strings.TrimPrefix(got, "…")) {
			t.Errorf("%.20q: got %d bytes", s, recorded(t, got))
		}
		if strings.HasSuffix(s, "end") && !strings.HasSuffix(got, "end") {
			t.Errorf("%.20q ends in %q", s, got[len(got)-10:])
		}
	}
}

// The size of an answer is the one it has in a record: spaces don't count, and a character that JSON escapes counts as escaped.
func TestRecorded(t *testing.T) {
	for value, want := range map[string]int{`{"a": 1}`: len(`{"a":1}`), `"<"`: len(`"\u003c"`), "[\n\n\n1]": 3, "no JSON": 7} {
		if got := RecordSize(json.RawMessage(value)); got != want {
			t.Errorf("%s: got %d, want %d", value, got, want)
		}
	}
}
