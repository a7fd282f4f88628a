package taskref_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/taskref"
)

func TestSeal(t *testing.T) {
	p := taskref.Places{Main: "/app", Worktrees: "/app-worktrees", Clone: "0123abcd"}
	for text, want := range map[string]string{
		"/app":               "%trellis:main%",
		"/app/a.txt":         "%trellis:main%/a.txt",
		"in /app, and /app.": "in %trellis:main%, and %trellis:main%.",
		"/application /app.txt /app~ /x/app /app-2":                 "/application /app.txt /app~ /x/app /app-2",
		"./app ../app ~/app ${HOME}/app $(pwd)/app */app $HOME/app": "./app ../app ~/app ${HOME}/app $(pwd)/app */app $HOME/app",
		"/app-worktrees/x:/app":                                     "%trellis:worktrees%/x:%trellis:main%",
		"file:///app/x https://app/x":                               "file://%trellis:main%/x https://app/x",
		`"a\n/app\t\"/app\" \u003c/app"`:                            `"a\n%trellis:main%\t\"%trellis:main%\" \u003c%trellis:main%"`,
		`"a\\n/app"`:                                                `"a\\n/app"`,
		"0123abcd 0123abcde x0123abcd":                              "%trellis:clone% 0123abcde x0123abcd",
		"%trellis:main% %trellis:":                                  "%trellis:mark%main% %trellis:mark%",
		"é/app/é":                                                   "é/app/é",
		"/app/..":                                                   "%trellis:main%/..",
		"--dir=/app (/app) [/app] '/app'":                           "--dir=%trellis:main% (%trellis:main%) [%trellis:main%] '%trellis:main%'",
	} {
		got := string(p.Seal([]byte(text)))
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if back := string(p.Open([]byte(got))); back != text {
			t.Errorf("%q came back as %q", text, back)
		}
	}
}

// If one folder is inside the other, the longer path is matched, whichever of the two it is.
func TestSealNested(t *testing.T) {
	for _, p := range []taskref.Places{{Main: "/w", Worktrees: "/w/trees"}, {Main: "/w/trees", Worktrees: "/w"}, {Main: "/w/", Worktrees: "/w/trees/"}} {
		marks := map[bool]string{true: "%trellis:main%/a %trellis:worktrees%/a", false: "%trellis:worktrees%/a %trellis:main%/a"}
		if got, want := string(p.Seal([]byte("/w/a /w/trees/a"))), marks[strings.HasPrefix(p.Worktrees, p.Main)]; got != want {
			t.Errorf("%+v: got %q, want %q", p, got, want)
		}
	}
	if got := string(taskref.Places{}.Seal([]byte("/ and nothing"))); got != "/ and nothing" {
		t.Errorf("without places: %q", got)
	}
}

// Sealed text opens to the same bytes, which seal to the same text again.
func FuzzPlaces(f *testing.F) {
	for _, text := range []string{"/app/x", "%trellis:main%", "%trellis:main%/app-worktrees/x", "%trellis:/app", "c0c0 /b/c0c0\\n/app", "\\u003c/app", "/app%trellis:main%trellis:"} {
		f.Add([]byte(text), "/app", "/app-worktrees", "c0c0")
		f.Add([]byte(text), "/b", "/b/trees", "%")
	}
	f.Fuzz(func(t *testing.T, text []byte, main, worktrees, clone string) {
		for _, folder := range []string{main, worktrees} {
			if folder != "" && (folder[0] != '/' || strings.Contains(folder, "%trellis:")) {
				t.Skip()
			}
		}
		if strings.Contains(clone, "%") || strings.Contains(clone, "/") {
			t.Skip()
		}
		p := taskref.Places{Main: main, Worktrees: worktrees, Clone: clone}
		sealed := p.Seal(text)
		opened := p.Open(sealed)
		if string(opened) != string(text) {
			t.Fatalf("%q was sealed as %q and opened as %q", text, sealed, opened)
		}
		if again := p.Seal(opened); string(again) != string(sealed) {
			t.Fatalf("%q was sealed as %q, and then as %q", text, sealed, again)
		}
	})
}
