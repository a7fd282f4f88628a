package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

func TestProtects(t *testing.T) {
	globs := []string{".trellis/**", "go.sum", "internal/secret/", "**/*.pem", "./Makefile", "/ci/**", "/docs", "web//./dist", "old/**/"}
	for path, want := range map[string]bool{
		".trellis/config.yaml": true, ".trellis/workflow.md": true, ".trellis/spec/backend/index.md": false, ".trellis/tasks/x/task.json": false, ".trellis/.current-task": false,
		"go.sum": true, "sub/go.sum": false, "internal/secret/a.go": true, "internal/secretive.go": false, "a/b/key.pem": true, "main.go": false,
		"Makefile": true, "sub/Makefile": false, "ci/a/run.sh": true, "x/ci/run.sh": false, "docs/guide.md": true, "web/dist/a.js": true, "web/src/a.js": false, "old/a/b.go": true,
	} {
		if got := config.Protects(globs, path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}

func TestProtectsAll(t *testing.T) {
	for _, all := range []string{".trellis", ".trellis/", ".trellis/**", "."} {
		if config.Protects([]string{all}, ".trellis/spec/a.md") || !config.Protects([]string{all}, ".trellis/config.yaml") {
			t.Errorf("%s protects guidelines, or does not protect the settings", all)
		}
	}
	for _, all := range []string{".", "/", "./"} {
		if !config.Protects([]string{all}, "a/b.go") {
			t.Errorf("%s does not protect a/b.go", all)
		}
	}
}

func TestGlobFault(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"app/[id.ts", "!important.txt", "a.b,c.d", "[id]/x"} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for glob, want := range map[string]string{
		"sub/**": "", "/sub": "", "./sub/": "", "**/*.pem": "", "**/*,v": "", "{a/*,b/*}": "", "[a.,/]x": "", `app/\[id\].ts`: "", `a\\b`: "", "a..b/...": "", "/": "", ".": "", "a//./b": "", "sub/**/": "",
		"app/[id.ts": "", "!important.txt": "", "a.b,c.d": "", "[id]/": "",
		"":          `is not a glob: ""`,
		"[a":        `is not a glob: "[a"`,
		"../x":      `has .. in it, which no path has: "../x"`,
		"a/../b/**": `has .. in it, which no path has: "a/../b/**"`,
		" sub/**":   `begins or ends with a space: " sub/**"`,
		"sub/**\t":  `begins or ends with a space: "sub/**\t"`,
		"!sub/**":   `begins with !, which excepts nothing here: "!sub/**"`,
		`sub\x.txt`: `has a \ where paths have /: "sub\\x.txt"`,
		`sub\**`:    `has a \ where paths have /: "sub\\**"`,
		"a/**, b/*": `is several globs, which have to be in a list: [a, b]: "a/**, b/*"`,
	} {
		if got := config.GlobFault(root, glob); got != want {
			t.Errorf("%q: got %s, want %s", glob, got, want)
		}
	}
}
