package mcpclients_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/mcpclients"
)

// Which further settings a program reads depends on where it is started. The order in which each reads them was observed with
// claude 2.1.197, codex 0.169.0 and opencode 1.18.33.
func TestElsewhere(t *testing.T) {
	const (
		claude   = `{"mcpServers": {"trellis": {"command": "x"}}}`
		codex    = "[mcp_servers.trellis]\ncommand = \"x\"\n"
		opencode = `{"mcp": {"trellis": {"type": "local", "command": ["x"]}}, /* so */}`
	)
	for name, c := range map[string]struct {
		program string
		files   map[string]string // by path below the test's folder, for which ROOT stands
		bare    bool              // there is no repository
		want    []string          // file and project, or * for every project; ! if the entry takes precedence
	}{
		"none":                 {"claude", map[string]string{"home/.claude.json": claude, "repo/.mcp.json": `{"mcpServers": {"other": {}}}`}, false, nil},
		"claude, its project":  {"claude", map[string]string{"home/.claude.json": `{"projects": {"ROOT/repo": ` + claude + `, "ROOT/repo/sub": {}}}`}, false, []string{"!home/.claude.json repo"}},
		"claude, another one":  {"claude", map[string]string{"home/.claude.json": `{"projects": {"ROOT/repo/sub": ` + claude + `}}`}, false, nil},
		"claude, no project":   {"claude", map[string]string{"home/.claude.json": `{"projects": {"ROOT/repo/sub": ` + claude + `}}`}, true, []string{"!home/.claude.json repo/sub"}},
		"claude, shared":       {"claude", map[string]string{".mcp.json": claude, "repo/sub/.mcp.json": claude, "repo/other/.mcp.json": claude}, false, []string{"!repo/sub/.mcp.json repo/sub", "!.mcp.json ."}},
		"claude, broken":       {"claude", map[string]string{"repo/.mcp.json": claude[1:], "home/.claude.json": "{"}, false, nil},
		"codex":                {"codex", map[string]string{"repo/.codex/config.toml": codex, ".codex/config.toml": codex, "home/.codex/config.toml": codex}, false, []string{"!repo/.codex/config.toml repo"}},
		"codex, no repository": {"codex", map[string]string{"repo/sub/.codex/config.toml": codex}, true, []string{"!repo/sub/.codex/config.toml repo/sub"}},
		"opencode":             {"opencode", map[string]string{"repo/opencode.json": opencode, "repo/sub/.opencode/opencode.jsonc": opencode, "opencode.json": opencode}, false, []string{"!repo/sub/.opencode/opencode.jsonc repo/sub", "!repo/opencode.json repo"}},
		"opencode, everywhere": {"opencode", map[string]string{"home/.opencode/opencode.json": opencode, "named.json": opencode}, false, []string{"!named.json *", "!home/.opencode/opencode.json *"}},
		"opencode, beside":     {"opencode", map[string]string{"home/.config/opencode/opencode.jsonc": "{}", "home/.config/opencode/opencode.json": opencode}, false, []string{"home/.config/opencode/opencode.json *"}},
		"opencode, above":      {"opencode", map[string]string{"opencode.json": opencode}, true, []string{"!opencode.json ."}},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{"home", "repo/sub", "repo/.git"} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			from := mcpclients.Start{Dir: filepath.Join(root, "repo", "sub"), Main: filepath.Join(root, "repo")}
			if c.bare {
				from.Main, err = "", os.Remove(filepath.Join(root, "repo", ".git"))
			}
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range c.files {
				write(t, filepath.Join(root, file), strings.ReplaceAll(text, "ROOT", root))
			}
			client, err := mcpclients.New(c.program, func(name string) string {
				return map[string]string{"HOME": filepath.Join(root, "home"), "OPENCODE_CONFIG": filepath.Join(root, "named.json")}[name]
			})
			if err != nil {
				t.Fatal(err)
			}
			below := func(path string) string {
				rel, err := filepath.Rel(root, path)
				if path == "" || err != nil {
					return "*"
				}
				return rel
			}
			var got []string
			for _, o := range client.Elsewhere(from) {
				got = append(got, map[bool]string{true: "!"}[o.TakesPrecedence]+below(o.File)+" "+below(o.Project))
				if o.TakesPrecedence && (o.Remove != "") != (c.program == "claude") {
					t.Errorf("%+v", o)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
