package text_test

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/text"
)

// Columns are counted, not letters: what is cut by them never breaks a line.
func TestWidth(t *testing.T) {
	for _, test := range []struct {
		s    string
		want int
	}{{"", 0}, {"plain", 5}, {"Übersicht", 9}, {"登录页面", 8}, {"ｗｉｄｅ", 8}, {"e\u0301te\u0301", 3}, {"🚀 go", 5}, {"한국", 4}, {"\u200d", 0}, {"🇩🇪", 2}, {"⭐\ufe0f", 2}, {"🏷\ufe0f", 2}, {"⚠\ufe0f", 2}, {"⚠", 1}} {
		if got := text.Width(test.s); got != test.want {
			t.Errorf("%q: got %d, want %d", test.s, got, test.want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, test := range []struct {
		s    string
		n    int
		want string
	}{
		{"登录页面", 8, "登录页面"}, {"登录页面", 7, "登录页…"}, {"登录页面", 6, "登录…"}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"},
		{"a\nb\x1b", 9, "a b␛"}, {"abc", 1, "…"}, {"abc", 0, ""}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		got := text.Clip(test.s, test.n)
		if got != test.want || text.Width(got) > test.n {
			t.Errorf("%q to %d: got %q, want %q", test.s, test.n, got, test.want)
		}
	}
}

// What is left out of the middle leaves the beginning and the end, so that names of which only these differ stay different.
func TestClipMiddle(t *testing.T) {
	for _, test := range []struct {
		s    string
		n    int
		want string
	}{
		{"02-01-long-name-2", 17, "02-01-long-name-2"}, {"02-01-long-name-2", 10, "02-01…me-2"}, {"02-01-long-name-2", 9, "02-0…me-2"},
		{"登录页面登录页面", 9, "登录…页面"}, {"登录页面登录页面", 8, "登录…面"}, {"a\nbcdef\x1b", 5, "a …f␛"}, {"abcd", 3, "a…d"}, {"abc", 2, "a…"}, {"abc", 1, "…"}, {"abc", 0, ""},
	} {
		got := text.ClipMiddle(test.s, test.n)
		if got != test.want || text.Width(got) > test.n {
			t.Errorf("%q to %d: got %q, want %q", test.s, test.n, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		s    string
		n    int
		want []string
	}{
		{"", 5, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"one two three", 8, []string{"one two", "three"}},
		{"onetwothree", 4, []string{"onet", "woth", "ree"}},
		{"  indented words", 10, []string{"  indented", "words"}},
		{"登录页面", 3, []string{"登", "录", "页", "面"}},
		{"登录", 1, []string{"登", "录"}},
		{"abc", -3, []string{"ab", "c"}},
	} {
		if got := text.Wrap(test.s, test.n); !slices.Equal(got, test.want) {
			t.Errorf("%q to %d: got %q, want %q", test.s, test.n, got, test.want)
		}
	}
}
