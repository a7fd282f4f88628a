package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// The commands of README.md for people without an account lead to a merged task, in different kinds of projects, with a home that has
// only git's settings. The project's own checks decide, as init finds them; in workspaces of npm and pnpm their setup command works too.
func TestNewcomer(t *testing.T) {
	const ignored, npmrc = "node_modules/\n__pycache__/\n", "audit=false\nfund=false\nupdate-notifier=false\noffline=true\n"
	web := map[string]string{"package.json": `{"name": "shop", "version": "1.0.0", "private": true, "workspaces": ["packages/*"]}`, ".npmrc": npmrc,
		"packages/web/package.json": `{"name": "web", "version": "1.0.0", "scripts": {"test": "node check.js"}}`, "packages/web/check.js": "process.exit(1 + 1 === 2 ? 0 : 1)\n"}
	for name, p := range soak.Rows(t, map[string]struct {
		needs  []string
		files  map[string]string
		before string // what the project's own people typed
		checks []string
	}{
		"go":   {[]string{"go"}, map[string]string{"go.mod": "module example.org/sum\n\ngo 1.24\n", "sum.go": "package sum\n\nfunc Sum(a, b int) int { return a + b }\n"}, "", []string{"go vet ./...", "go test ./..."}},
		"npm":  {[]string{"npm", "node"}, web, "npm install --package-lock-only >/dev/null", []string{"npm run test --workspaces --if-present"}},
		"pnpm": {[]string{"pnpm", "node"}, with(web, "pnpm-workspace.yaml", "packages:\n  - packages/*\n"), "pnpm install --lockfile-only >/dev/null", []string{"pnpm -r --if-present run test"}},
		"python": {[]string{"python3"}, map[string]string{"pyproject.toml": "[project]\nname = \"sum\"\nversion = \"1\"\n", "tests/test_sum.py": "import unittest\n\n\nclass Sum(unittest.TestCase):\n    def test(self):\n        self.assertEqual(1 + 1, 2)\n"},
			"", []string{"python3 -m unittest discover -s tests"}},
	}, "go", "python") {
		t.Run(name, func(t *testing.T) {
			r := newcomer(t, p.needs)
			for name, text := range with(with(p.files, ".gitignore", ignored), "README.md", "A project.\n") {
				path := filepath.Join(r.cwd, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := r.shell("set -e\n" + p.before + "\n" + begun); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err := r.shell("set -e\n" + readmeBlock(t, "newcomer"))
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if said, err := r.shell("sh farewell.sh Ada; git status --short; git log --oneline | wc -l"); err != nil || !strings.HasPrefix(said, "Goodbye, Ada!\n") {
				t.Errorf("in the main checkout: %v\n%s", err, said)
			}
			report, err := r.shell("cat .trellis/tasks/archive/*/11-20-farewell/report.md")
			for _, check := range p.checks {
				if row := "| `" + check + "` |"; err != nil || !strings.Contains(report, row) {
					t.Errorf("the report lacks the check %s: %v\n%s\n%s", check, err, report, out)
				}
			}
		})
	}
}

// with returns files with one more.
func with(files map[string]string, name, text string) map[string]string {
	all := map[string]string{name: text}
	for n, x := range files {
		all[n] = x
	}
	return all
}

// readmeBlock returns the first block of README.md that is typed in a scene.
func readmeBlock(t *testing.T, scene string) string {
	_, text, found := strings.Cut(pages(t)["README.md"], "<!-- typed: "+scene+" -->\n```\n")
	text, _, ended := strings.Cut(text, "```\n")
	if !found || !ended {
		t.Fatalf("README.md has no block of the scene %s", scene)
	}
	return text
}

// newcomer returns a room with an empty home, the usual programs, and those that a project needs. Without these the test is skipped.
func newcomer(t *testing.T, needs []string) *room {
	t.Helper()
	root := t.TempDir()
	home, bin := filepath.Join(root, "home"), filepath.Join(root, "bin")
	r := &room{T: t, root: root, cwd: filepath.Join(home, "project"), env: []string{"HOME=" + home, "TMPDIR=" + root, "PATH=" + bin,
		"TZ=UTC", "LC_ALL=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1", "GORACE=atexit_sleep_ms=0", "GOGC=" + os.Getenv("GOGC")}}
	for _, dir := range []string{r.cwd, bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append([]string{"bash", "cat", "env", "git", "mkdir", "mv", "sed", "sh", "tee", "test", "trellis", "uname", "dirname", "wc"}, needs...) {
		path, err := exec.LookPath(name)
		if own := filepath.Join(repository(t), ".tools", name, "node_modules", ".bin", name); err != nil {
			path, err = exec.LookPath(own) // where make setup puts what the machine lacks
		}
		if name == "trellis" { // as it is built for people
			path, err = built()
		}
		switch {
		case err != nil && slices.Contains(needs, name) && os.Getenv("CI") != "":
			t.Fatalf("%s is missing (make setup): %v", name, err)
		case err != nil && slices.Contains(needs, name):
			t.Skipf("%s is not installed (make setup): %v", name, err)
		case err == nil && name == "python3": // a version manager may put a script of its own there
			var out []byte
			out, err = exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
			path = strings.TrimSpace(string(out))
		case err == nil && name == "go":
			var out []byte
			out, err = exec.Command(path, "env", "GOCACHE").Output()
			r.env = append(r.env, "GOCACHE="+strings.TrimSpace(string(out)), "GOFLAGS=-vet=off", "GOTOOLCHAIN=local")
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}
