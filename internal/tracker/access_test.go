package tracker

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/rest"
)

// An error says what went wrong and what to type, and never has the token.
func TestExplain(t *testing.T) {
	a := &Access{}
	spent, captcha := http.Header{"X-Ratelimit-Remaining": {"0"}}, http.Header{}
	captcha.Set("X-Seraph-LoginReason", "AUTHENTICATION_DENIED")
	for _, c := range []struct {
		kind       Kind
		err        error
		says, next string
	}{
		{Linear, rest.ErrNoToken, "there is no token", "export LINEAR_API_KEY="},
		{Linear, &rest.Error{Status: 401}, "does not take the token of VAR", "export LINEAR_API_KEY="},
		{Jira, &rest.Error{Status: 401}, "does not take the token of VAR", "export JIRA_EMAIL="},
		{Jira, &rest.Error{Status: 403, Header: captcha}, "captcha", "browser"},
		{GitLab, &rest.Error{Status: 404}, "GitLab has no KEY, or the token of VAR can't see it", "browser"},
		{GitHub, &rest.Error{Status: 429, Wait: time.Minute}, "asks to wait 1m0s", "in 1m0s"},
		{GitHub, &rest.Error{Status: 403, Header: spent}, "answers 403", "in a minute"},
		{GitHub, &rest.Error{Status: 403}, "does not take the token of VAR", "export GITHUB_TOKEN="},
		{GitHub, &rest.Error{Status: 500}, "answers 500", "--requirement-file"},
		{Linear, rest.ErrNoAnswer, "no answer", "network"},
	} {
		var told *Error
		err := a.explain(t.Context(), "reading", Ref{Kind: c.kind, Key: "KEY"}, "VAR", c.err)
		if !errors.As(err, &told) || !strings.Contains(err.Error(), c.says) || !strings.Contains(strings.Join(told.Next, "\n"), c.next) {
			t.Errorf("%s, %v: got %v, next %q", c.kind, c.err, err, told.Next)
		}
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	script := func(text string) []string {
		file := filepath.Join(dir, "tells")
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return []string{file}
	}
	env := []string{"PATH=" + os.Getenv("PATH")}
	var wall time.Duration
	get := func(command []string, vars ...string) (string, error) {
		tok := (&Access{Settings: config.Trackers{Linear: config.Tracker{TokenCommand: command}}, Env: append(env, vars...), Dir: dir}).tokenSource(Linear)
		tok.Wall = wall
		token, _, err := tok.Get(t.Context())
		return token, err
	}
	if got, err := get(script("echo by-command; echo second"), "LINEAR_API_KEY= by-variable\n"); got != "by-variable" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := get(script("echo ' by-command '; echo second; echo noise >&2"), "LINEAR_API_KEY="); got != "by-command" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for name, c := range map[string]struct {
		command []string
		vars    string
	}{
		"none": {nil, "X=1"}, "fails": {script("echo secret-1; exit 1"), "X=1"}, "missing": {[]string{"no-such-program"}, "X=1"}, "a header in it": {nil, "LINEAR_API_KEY=secret-1\r\nX-Evil: 1"},
	} {
		if got, err := get(c.command, c.vars); err == nil || strings.Contains(err.Error(), "secret-1") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	for name, text := range map[string]string{"nothing": "exit 0", "an empty line": "echo; echo secret-1", "a sentence": "echo secret-1 is it"} {
		if got, err := get(script(text)); err == nil || strings.Contains(err.Error(), "secret-1") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	wall = 100 * time.Millisecond
	if got, err := get(script("sleep 60; echo late")); err == nil {
		t.Errorf("too slow: got %q", got)
	}
}

// A token of GitHub is sent to github.com, and to another host only if GH_HOST names it.
func TestTokenOfGitHub(t *testing.T) {
	ref, err := Parse("https://evil.example.org/o/r/issues/1", Sites{})
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + t.TempDir(), "GITHUB_TOKEN=" + token}
	if tr, _, err := (&Access{Env: env}).open(t.Context(), ref); err == nil {
		t.Errorf("got %+v", tr)
	}
	tr, _, err := (&Access{Env: append(env, "GH_HOST=evil.example.org")}).open(t.Context(), ref)
	if g, is := tr.(*githubREST); !is || err != nil || g.server.Base != "https://evil.example.org/api/v3" {
		t.Errorf("got %+v, %v", tr, err)
	}
}

func TestFlatten(t *testing.T) {
	raw := `{"type":"doc","version":1,"content":[
	 {"type":"heading","attrs":{"level":2},"content":[{"type":"text","text":"Why"}]},
	 {"type":"paragraph","content":[{"type":"text","text":"It is "},{"type":"text","text":"slow","marks":[{"type":"strong"}]},{"type":"hardBreak"},{"type":"text","text":"here","marks":[{"type":"link","attrs":{"href":"https://x.org"}}]},{"type":"mention","attrs":{"text":"@ada"}}]},
	 {"type":"orderedList","content":[{"type":"listItem","content":[{"type":"paragraph","content":[{"type":"text","text":"one"}]},{"type":"bulletList","content":[{"type":"listItem","content":[{"type":"paragraph","content":[{"type":"text","text":"inner"}]}]}]}]},{"type":"listItem","content":[{"type":"paragraph","content":[{"type":"text","text":"two"}]}]}]},
	 {"type":"codeBlock","attrs":{"language":"go"},"content":[{"type":"text","text":"a()\n` + "```" + `"}]},
	 {"type":"table","content":[{"type":"tableRow","content":[{"type":"tableHeader","content":[{"type":"paragraph","content":[{"type":"text","text":"k"}]}]}]},{"type":"tableRow","content":[{"type":"tableCell","content":[{"type":"paragraph","content":[{"type":"text","text":"v"}]}]}]}]},
	 {"type":"unheardOf","content":[{"type":"paragraph","content":[{"type":"text","text":"still read"}]}]},
	 {"type":"mediaSingle","content":[{"type":"media"}]}]}`
	want := "## Why\n\nIt is **slow**\n[here](https://x.org)@ada\n\n1. one\n\n   - inner\n2. two\n\n````go\na()\n```\n````\n\n| k |\n| --- |\n| v |\n\nstill read\n\n(an attachment)"
	if got := toMarkdown([]byte(raw)); got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	for _, raw := range []string{`null`, `"plain"`, `[]`, `{}`, `3`, `{"type":"doc","content":"x"}`} {
		if got := toMarkdown([]byte(raw)); got != "" && got != "plain" {
			t.Errorf("%s: got %q", raw, got)
		}
	}
	deep := strings.Repeat(`{"type":"blockquote","content":[`, 5000) + `{"type":"text","text":"x"}` + strings.Repeat(`]}`, 5000)
	if got := toMarkdown([]byte(deep)); len(got) > 10000 {
		t.Errorf("%d bytes", len(got))
	}
}

// If gh is there, it searches for a comment and writes it, and the text is never an argument. A comment that was hidden since is found.
func TestCommentByGH(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
echo "$@" >> ` + dir + `/asked
case "$2" in
view) echo "{\"comments\": [$(cat ` + dir + `/comments 2>/dev/null)]}" ;;
comment) cat > ` + dir + `/said; echo '{"body": "Pull request: https://x/pull/3 Trellis, task a", "isMinimized": true}' > ` + dir + `/comments ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "gh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	a := &Access{Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, Dir: dir}
	ref, err := ParseSource("github:acme/shop#7", "", Sites{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		wrote, err := a.CommentOnce(t.Context(), ref, "Pull request: https://x/pull/3\n\nTrellis, task a", "https://x/pull/3", "Trellis, task a")
		if wrote != want || err != nil {
			t.Errorf("wrote %v, %v", wrote, err)
		}
	}
	said, _ := os.ReadFile(filepath.Join(dir, "said"))
	asked, _ := os.ReadFile(filepath.Join(dir, "asked"))
	if want := "issue view --json comments --repo=acme/shop 7\nissue comment --body-file=- --repo=acme/shop 7\nissue view --json comments --repo=acme/shop 7\n"; string(asked) != want || !strings.Contains(string(said), "https://x/pull/3") {
		t.Errorf("asked\n%s, said %q", asked, said)
	}
}

// If no setting names the site of a Jira, the address of the issue does, provided that it is an address of the same issue.
func TestFrom(t *testing.T) {
	if ref, err := ParseSource("jira:SHOP-3", "https://acme.atlassian.net/browse/SHOP-3", Sites{}); err != nil || ref.Site != "https://acme.atlassian.net" {
		t.Errorf("got %+v, %v", ref, err)
	}
	for _, address := range []string{"", "https://evil.example.org/browse/SHOP-3", "https://acme.atlassian.net/browse/SHOP-4", "http://acme.atlassian.net/browse/SHOP-3"} {
		if ref, err := ParseSource("jira:SHOP-3", address, Sites{}); err == nil {
			t.Errorf("%q: got %+v", address, ref)
		}
	}
	if ref, err := ParseSource("jira:SHOP-3", "https://evil.example.org/browse/SHOP-3", Sites{Jira: "https://jira.example.org"}); err != nil || ref.Site != "" {
		t.Errorf("got %+v, %v", ref, err)
	}
}
