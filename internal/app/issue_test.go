package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

func TestIssueArguments(t *testing.T) {
	for ref, want := range map[string][]string{
		"12": {"12"}, "#12": {"12"}, "acme/shop#7": {"--repo=acme/shop", "7"}, "ghe.example.org/acme/shop#7": {"--repo=ghe.example.org/acme/shop", "7"},
		"https://github.com/acme/shop/issues/12/":      {"https://github.com/acme/shop/issues/12"},
		"https://github.com/acme/shop/issues/12?x=1#c": {"https://github.com/acme/shop/issues/12"},
		"": nil, "0": nil, "-1": nil, "#": nil, "12a": nil, "12 13": nil, "12\n": nil, "-x/y#3": nil, "shop#3": nil, "a/b/c/d#3": nil,
		"https://github.com/acme/shop/pull/12": nil, "https://github.com/acme/shop/issues/12/x": nil, "ftp://h/a/b/issues/1": nil, "https:///a/b/issues/1": nil,
		"$(id)": nil, "--web": nil,
	} {
		got, err := issueArguments(ref)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) || err != nil && KindOf(err) != ErrUsage {
			t.Errorf("%q: got %q, %v; want %q", ref, got, err, want)
		}
	}
}

// A task is called after an issue's title in whole words, and after its number where that has no letters.
func TestIssueName(t *testing.T) {
	for title, want := range map[string]string{
		"Take limit & offset":            "take-limit-offset",
		"日本語":                            "issue-3",
		strings.Repeat("abcdefghi ", 10): "abcdefghi-abcdefghi-abcdefghi",
		strings.Repeat("a", 99):          strings.Repeat("a", 30),
	} {
		if got := (&Issue{Number: 3, Title: title}).Name(); got != want || !trellis.ValidName(got) {
			t.Errorf("%q: got %q, want %q", title, got, want)
		}
	}
}
