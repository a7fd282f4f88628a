package setup

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

// laid writes files to a new folder and returns it.
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

// Edge C18: init proposes the commands of the tools that the project uses.
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
		"pnpm, not locked":  {map[string]string{"package.json": scripts, "pnpm-workspace.yaml": ""}, "pnpm run lint; pnpm run test"},
		"unittest":          {map[string]string{"pyproject.toml": "", "tests/test_x.py": ""}, "python3 -m unittest discover -s tests"},
		"unittest beside":   {map[string]string{"pyproject.toml": "", "uv.lock": "", "test_x.py": ""}, "uv run python -m unittest discover"},
		"python, no tests":  {map[string]string{"pyproject.toml": ""}, ""},
		"uv":                {map[string]string{"pyproject.toml": python, "uv.lock": ""}, "uv run pytest"},
		"poetry":            {map[string]string{"pyproject.toml": python, "poetry.lock": ""}, "poetry run pytest"},
		"python":            {map[string]string{"pyproject.toml": python}, "python3 -m pytest"},
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

// Edge C18: init finds the packages of a monorepo, and the commands for all of them, in the files of its tools.
func TestWorkspaces(t *testing.T) {
	const scripts, python = `{"scripts": {"test": "t", "lint": "l"}}`, "[tool.pytest.ini_options]\n"
	for name, c := range map[string]struct {
		files                         map[string]string
		tool, packages, verify, setup string
	}{
		"go.work": {map[string]string{"go.work": "go 1.26\n\nuse (\n\t./api\n\t./lib/a // shared\n)\nuse ./cmd\n", "api/go.mod": "", "lib/a/go.mod": "", "cmd/go.mod": ""},
			"go.work", "api=api cmd=cmd a=lib/a", "go vet ./api/... ./lib/a/... ./cmd/...; go test ./api/... ./lib/a/... ./cmd/...", ""},
		"pnpm": {map[string]string{"package.json": "{}", "pnpm-lock.yaml": "", "pnpm-workspace.yaml": "packages:\n  - packages/*\n  - '!packages/old'\n", "packages/web/package.json": scripts, "packages/old/package.json": scripts, "tools/package.json": "{}"},
			"pnpm", "web=packages/web", "pnpm -r --if-present run lint; pnpm -r --if-present run test", "pnpm install --frozen-lockfile"},
		"npm, from its top": {map[string]string{"package.json": `{"workspaces": ["apps/*"], "scripts": {"test": "x"}}`, "package-lock.json": "", "apps/a/package.json": scripts},
			"npm", "a=apps/a", "npm run test", "npm ci"},
		"npm": {map[string]string{"package.json": `{"workspaces": {"packages": ["apps/**"]}}`, "apps/a/package.json": scripts, "apps/b/deep/package.json": "{}"},
			"npm", "a=apps/a deep=apps/b/deep", "npm run lint --workspaces --if-present; npm run test --workspaces --if-present", ""},
		"yarn": {map[string]string{"package.json": `{"workspaces": ["p/*"]}`, "yarn.lock": "", ".yarnrc.yml": "", "p/a/package.json": scripts},
			"yarn", "a=p/a", "yarn workspaces foreach --all run lint; yarn workspaces foreach --all run test", "yarn install --immutable"},
		"old yarn": {map[string]string{"package.json": `{"workspaces": ["p/*"]}`, "yarn.lock": "", "p/a/package.json": `{"scripts": {"test": "t"}}`},
			"yarn", "a=p/a", "yarn workspaces run test", "yarn install --frozen-lockfile"},
		"bun": {map[string]string{"package.json": `{"workspaces": ["p/*"]}`, "bun.lock": "", "p/a/package.json": `{"scripts": {"test": "t"}}`},
			"bun", "a=p/a", "bun run --filter '*' test", "bun install --frozen-lockfile"},
		"cargo": {map[string]string{"Cargo.toml": "[workspace]\nmembers = [\"crates/*\"]\n", "crates/x/Cargo.toml": "", "crates/y/Cargo.toml": ""},
			"cargo", "x=crates/x y=crates/y", "cargo test --workspace", ""},
		"uv": {map[string]string{"pyproject.toml": "[tool.uv.workspace]\nmembers = [\"libs/*\"]\n", "uv.lock": "", "libs/x/pyproject.toml": python},
			"uv", "x=libs/x", "uv run --all-packages pytest", "uv sync"},
		"make before all": {map[string]string{"Makefile": "test:\n", "go.work": "use ./a\n", "a/go.mod": ""},
			"go.work", "a=a", "make test", ""},
		"not joined": {map[string]string{"web/package.json": scripts, "web/pnpm-lock.yaml": "", "services/a b/go.mod": "module x\n", "node_modules/x/package.json": "{}", "api/testdata/go.mod": "", ".hidden/go.mod": "", "a/b/c/d/go.mod": ""},
			"", "a-b=services/a b web=web", "cd 'services/a b' && go vet ./...; cd 'services/a b' && go test ./...; cd web && pnpm run lint; cd web && pnpm run test", "cd web && pnpm install --frozen-lockfile"},
		"what a shell would obey": {map[string]string{"a&b/go.mod": "module x\n", "c;d/package-lock.json": "", "c;d/package.json": `{"scripts": {"test": "t"}}`},
			"", "a-b=a&b c-d=c;d", "cd 'a&b' && go vet ./...; cd 'a&b' && go test ./...; cd 'c;d' && npm run test", "cd 'c;d' && npm ci"},
		"what a shell would obey, joined": {map[string]string{"go.work": "use ./a*b\nuse ./c\n"},
			"go.work", "a-b=a*b c=c", "go vet './a*b/...' ./c/...; go test './a*b/...' ./c/...", ""},
		"called the same": {map[string]string{"go.mod": "", "x/api/go.mod": "", "y/api/go.mod": ""},
			"", "x-api=x/api y-api=y/api", "go vet ./...; go test ./...", ""},
		"one package":  {map[string]string{"package.json": scripts, "package-lock.json": ""}, "", "", "npm run lint; npm run test", "npm ci"},
		"broken files": {map[string]string{"go.work": "use (\n", "package.json": "{", "Cargo.toml": "[workspace", "pyproject.toml": "["}, "", "", "cargo test", ""},
		"nothing":      {map[string]string{"README.md": ""}, "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := findWorkspace(laid(t, c.files))
			var packages []string
			for _, p := range w.packages {
				packages = append(packages, p.name+"="+p.dir)
			}
			if got := strings.Join(packages, " "); got != c.packages || w.tool != c.tool {
				t.Errorf("%s: %q, want %s: %q", w.tool, got, c.tool, c.packages)
			}
			if verify, setup := strings.Join(w.verify, "; "), strings.Join(w.setup, "; "); verify != c.verify || setup != c.setup {
				t.Errorf("verify %q, setup %q\nwant %q, %q", verify, setup, c.verify, c.setup)
			}
			template, err := scaffold.ReadFile("scaffold/config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			filled, err := fillConfig(template, "claude", w)
			if err != nil {
				t.Fatal(err)
			}
			cfg, problems := config.Load(config.Files{Config: config.File{Name: "config.yaml", Data: filled}})
			if len(problems) > 0 || len(cfg.Packages) != len(w.packages) || strings.Join(cfg.Verify, "; ") != c.verify || strings.Join(cfg.Worktree.Setup, "; ") != c.setup {
				t.Errorf("the file it makes: %v, packages %v, verify %q, setup %q\n%s", problems, cfg.Packages, cfg.Verify, cfg.Worktree.Setup, filled)
			}
		})
	}
}

// The config.yaml that init writes is valid, also with every setting uncommented. The settings are the defaults then, except for examples.
func TestScaffoldConfig(t *testing.T) {
	template, err := scaffold.ReadFile("scaffold/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := fillConfig(template, `odd "name"`, workspace{verify: []string{"make test", `echo "a: b" # c`}})
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
