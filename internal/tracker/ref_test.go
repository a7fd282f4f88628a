package tracker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Arguments that gh accepts are given to gh as before there were other trackers.
func TestIssueArguments(t *testing.T) {
	for named, want := range map[string][]string{
		"12": {"12"}, "#12": {"12"}, "acme/shop#7": {"--repo=acme/shop", "7"}, "ghe.example.org/acme/shop#7": {"--repo=ghe.example.org/acme/shop", "7"},
		"github:acme/shop#7":                           {"--repo=acme/shop", "7"},
		"https://github.com/acme/shop/issues/12/":      {"https://github.com/acme/shop/issues/12"},
		"https://github.com/acme/shop/issues/12?x=1#c": {"https://github.com/acme/shop/issues/12"},
		"": nil, "0": nil, "-1": nil, "#": nil, "12a": nil, "12 13": nil, "12\n": nil, "-x/y#3": nil, "shop#3": nil, "a/b/c/d#3": nil,
		"https://github.com/acme/shop/pull/12": nil, "https://github.com/acme/shop/issues/12/x": nil, "ftp://h/a/b/issues/1": nil, "https:///a/b/issues/1": nil,
		"$(id)": nil, "--web": nil, "github:12": nil, "github:-x/y#3": nil,
	} {
		ref, err := Parse(named, Sites{})
		var got []string
		if err == nil {
			got = (&gh{ref: ref}).arguments(ref.Key)
		}
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: got %q, %v; want %q", named, got, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	sites := Sites{Jira: "https://jira.example.org/base", GitLab: "https://git.example.org"}
	for named, want := range map[string]string{
		"linear:ABC-12": "linear:ABC-12", "Linear:abc-12": "linear:ABC-12", "jira:shop-3": "jira:SHOP-3", "gitlab:group/sub/p#4": "gitlab:group/sub/p#4", "github:o/r#7": "github:o/r#7",
		"https://linear.app/acme/issue/ABC-12/take-limit": "linear:ABC-12", "https://linear.app/acme/issue/ABC-12": "linear:ABC-12",
		"https://jira.example.org/base/browse/SHOP-3": "jira:SHOP-3", "https://jira.example.org/base/browse/SHOP-3?x=1": "jira:SHOP-3",
		"https://git.example.org/group/sub/p/-/issues/4": "gitlab:group/sub/p#4", "https://git.example.org/group/p/-/work_items/4/": "gitlab:group/p#4",
		"http://jira.example.org/base/browse/SHOP-3": "", "https://evil.example.org/base/browse/SHOP-3": "", "https://acme.atlassian.net/browse/SHOP-3": "", "https://gitlab.com/g/p/-/issues/4": "",
		"https://jira.example.org.evil.net/base/browse/SHOP-3": "", "https://x@git.example.org/g/p/-/issues/4": "",
		"linear:12": "", "linear:ABC": "", "jira:../x": "", "jira:A-0": "", "gitlab:p#4": "", "gitlab:g/p": "", "gitlab:g//p#4": "", "gitlab:../g/p#x": "", "trello:1": "", "ABC-12": "", "linear:": "", "gitlab:../p#4": "", "github:../x#1": "", "github:o/..#1": "", "../x#1": "", "https://git.example.org/g/../p/-/issues/4": "", "https://github.com/o/../issues/4": "", "linear:ABC-12\nx": "",
	} {
		ref, err := Parse(named, sites)
		if got := ref.String(); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %s, %v; want %q", named, got, err, want)
		}
	}
	if ref, err := Parse("https://acme.atlassian.net/browse/SHOP-3", Sites{}); err != nil || ref.Site != "https://acme.atlassian.net" {
		t.Errorf("got %+v, %v", ref, err)
	}
	if _, err := Parse("http://acme.atlassian.net/browse/SHOP-3", Sites{}); err == nil {
		t.Error("a token would go to http")
	}
}

// The error of a reference that is nearly valid says what was meant.
func TestRefErrors(t *testing.T) {
	for named, want := range map[string]string{
		"liner:ABC-1": "linear:ABC-1", "jria:ABC-1": "jira:ABC-1", "ABC-12": "linear:ABC-12", "gitlab:4": "gitlab:group/project#4", "x:1": "linear:ABC-12",
		"https://git.evil.org/g/p/-/issues/4": "trellis config set trackers.gitlab.url https://git.evil.org",
	} {
		_, err := Parse(named, Sites{})
		var e *RefError
		if !errors.As(err, &e) || !strings.Contains(strings.Join(e.Next, "\n"), want) {
			t.Errorf("%q: got %v, want %q next", named, err, want)
		}
	}
}

// The name of a task is whole words of the issue's title, or the name of the issue if the title has no letters.
func TestTaskName(t *testing.T) {
	for title, want := range map[string]string{
		"Take limit & offset":            "take-limit-offset",
		"日本語":                            "issue-3",
		strings.Repeat("abcdefghi ", 10): "abcdefghi-abcdefghi-abcdefghi",
		strings.Repeat("a", 99):          strings.Repeat("a", 30),
	} {
		if got := (&Issue{Name: "#3", Title: title}).TaskName(); got != want || !trellis.ValidName(got) {
			t.Errorf("%q: got %q, want %q", title, got, want)
		}
	}
	if got := (&Issue{Name: "ABC-12", Title: "日本語"}).TaskName(); got != "abc-12" {
		t.Errorf("got %q", got)
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		labels            []string
		native            string
		priority, devtype string
	}{
		{nil, "P1", "P1", ""},
		{[]string{"p0", "bug"}, "P3", "P0", ""},
		{[]string{"priority: high", "Backend"}, "", "P1", "backend"},
		{[]string{"priority::low", "priority/medium", "type: docs"}, "", "P2", "docs"},
		{[]string{"critical", "area: backend", "performance"}, "", "", ""},
		{[]string{"backend", "frontend"}, "P2", "P2", ""},
	} {
		i := &Issue{Labels: c.labels, Urgency: c.native}
		if i.Priority() != c.priority || i.DevType() != c.devtype {
			t.Errorf("%q: got %q and %q", c.labels, i.Priority(), i.DevType())
		}
	}
}

// An issue of another GitHub than github.com stays on that host wherever it is named later: a token of that host goes to no other.
func TestAnotherGitHubStaysItself(t *testing.T) {
	const address = "https://ghe.example.org/acme/shop/issues/7"
	ref, err := Parse(address, Sites{})
	if err != nil || ref.Key != "ghe.example.org/acme/shop#7" {
		t.Fatalf("got %+v %v", ref, err)
	}
	if got := (&gh{ref: ref}).arguments(ref.Key); len(got) != 1 || got[0] != address {
		t.Errorf("gh is asked for %q", got)
	}
	again, err := ParseSource(string(ref.Kind)+":"+ref.Key, address, Sites{})
	if host, _, _ := githubParts(again.Key); err != nil || host != "ghe.example.org" {
		t.Errorf("got %+v %v", again, err)
	}
}
