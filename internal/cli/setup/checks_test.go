package setup

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

// laid are files below a folder of their own.
func laid(t *testing.T, list map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range list {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Edge C18: init proposes the commands of the project's own tools.
func TestVerifyCommands(t *testing.T) {
	const scripts, python = `{"scripts": {"test": "t", "lint": "l"}}`, "[tool.pytest.ini_options]\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"npm":               {map[string]string{"package.json": scripts, "package-lock.json": ""}, "npm run lint; npm run test"},
		"no lockfile":       {map[string]string{"package.json": scripts}, "npm run lint; npm run test"},
		"pnpm":              {map[string]string{"package.json": scripts, "pnpm-lock.yaml": ""}, "pnpm run lint; pnpm run test"},
		"yarn":              {map[string]string{"package.json": scripts, "yarn.lock": ""}, "yarn run lint; yarn run test"},
		"bun":               {map[string]string{"package.json": scripts, "bun.lock": ""}, "bun run lint; bun run test"},
		"said so":           {map[string]string{"package.json": `{"packageManager": "pnpm@9.1.0", "scripts": {"test": "t"}}`, "package-lock.json": ""}, "pnpm run test"},
		"uv":                {map[string]string{"pyproject.toml": python, "uv.lock": ""}, "uv run pytest"},
		"poetry":            {map[string]string{"pyproject.toml": python, "poetry.lock": ""}, "poetry run pytest"},
		"python":            {map[string]string{"pyproject.toml": python}, "python -m pytest"},
		"cargo":             {map[string]string{"Cargo.toml": ""}, "cargo test"},
		"go":                {map[string]string{"go.mod": "module x\n"}, "go vet ./...; go test ./..."},
		"make before all":   {map[string]string{"Makefile": "test: x\n", "go.mod": ""}, "make test"},
		"nothing at hand":   {map[string]string{"README.md": ""}, ""},
		"a folder so named": {map[string]string{"go.mod/x": ""}, ""},
	} {
		if got := strings.Join(verifyCommands(laid(t, c.files)), "; "); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Edge C18: packages beneath are named with what would check them.
func TestPackagesBelow(t *testing.T) {
	root := laid(t, map[string]string{"packages/web/package.json": `{"scripts": {"test": "t"}}`, "packages/web/pnpm-lock.yaml": "", "services/a b/go.mod": "module x\n",
		"tools/pyproject.toml": "", "node_modules/x/package.json": "{}", "api/testdata/go.mod": "", ".hidden/go.mod": "", "a/b/c/d/go.mod": ""})
	want := []string{"package packages/web: under verify it takes `cd packages/web && pnpm run test`",
		"package services/a b: under verify it takes `cd 'services/a b' && go vet ./...`, `cd 'services/a b' && go test ./...`", "package tools"}
	if got := strings.Join(packagesBelow(root), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got := packagesBelow(laid(t, map[string]string{"go.mod": ""})); got != nil {
		t.Errorf("of one package: %q", got)
	}
}

// The config.yaml that init writes is valid as it is, and also when every setting in it is taken out
// of its comment, which changes nothing but the examples.
func TestScaffoldConfig(t *testing.T) {
	template, err := scaffold.ReadFile("scaffold/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := fillConfig(template, `odd "name"`, []string{"make test", `echo "a: b" # c`})
	if err != nil {
		t.Fatal(err)
	}
	c, problems := config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: template}})
	if len(problems) > 0 || len(c.Verify) > 0 || c.Agents.Default != "" {
		t.Errorf("as it is: got %v, %+v, want the defaults", problems, c)
	}
	c, _ = config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: filled}})
	if c.Agents.Default != `odd "name"` || strings.Join(c.Verify, "|") != `make test|echo "a: b" # c` {
		t.Errorf("filled: got %q and %q", c.Agents.Default, c.Verify)
	}
	all := regexp.MustCompile(`(?m)^#(\S|  )`).ReplaceAll(template, []byte("$1"))
	got, problems := config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: all}})
	want, _ := config.Load(config.Files{})
	if len(problems) > 0 || got.Limits.Idle != want.Limits.Idle || got.Limits.Tokens != want.Limits.Tokens || got.Planning != want.Planning || got.VerifyTimeout != want.VerifyTimeout {
		t.Errorf("uncommented: got %v\n%+v\nwant\n%+v", problems, got, want)
	}
	if strings.Count(string(all), "\n#") > strings.Count(string(template), "\n# ") {
		t.Error("not every setting was taken out of its comment")
	}
}
