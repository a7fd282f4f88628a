package setup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// verifyCommands returns the commands by which the project seems to check itself.
func verifyCommands(root string) []string {
	switch {
	case hasTarget(root, "test"):
		return []string{"make test"}
	case hasFile(root, "go.mod"):
		return []string{"go vet ./...", "go test ./..."}
	case hasFile(root, "Cargo.toml"):
		return []string{"cargo test"}
	case hasFile(root, "package.json"):
		return nodeScripts(root)
	case hasFile(root, "pyproject.toml"):
		return pythonTests(root)
	}
	return nil
}

func hasFile(root, name string) bool {
	st, err := os.Stat(filepath.Join(root, name))
	return err == nil && st.Mode().IsRegular()
}

// hasTarget reports whether the Makefile has a rule for target.
func hasTarget(root, target string) bool {
	data, err := durable.ReadBelow(root, "Makefile", durable.MaxRecords)
	return err == nil && slices.ContainsFunc(strings.Split(string(data), "\n"), func(line string) bool {
		names, _, rule := strings.Cut(line, ":")
		return rule && !strings.HasPrefix(line, "\t") && slices.Contains(strings.Fields(names), target)
	})
}

// manifest has the fields of package.json that say how its scripts are run.
type manifest struct {
	Scripts        map[string]string
	PackageManager string // name@version
}

// hasScript reports whether there is a script of that name that does something.
func (m manifest) hasScript(name string) bool {
	script := m.Scripts[name]
	return script != "" && !strings.Contains(script, "no test specified")
}

// nodeScripts returns commands for those of the usual scripts that package.json has, run by the project's package manager.
func nodeScripts(root string) (list []string) {
	var m manifest
	if !readFile(root, "package.json", json.Unmarshal, &m) {
		return nil
	}
	for _, name := range []string{"lint", "test", "build"} {
		if m.hasScript(name) {
			list = append(list, packageManager(root, m)+" run "+name)
		}
	}
	return list
}

// packageManager returns the one that package.json names, or whose lockfile exists, or npm.
func packageManager(root string, m manifest) string {
	if name, _, _ := strings.Cut(m.PackageManager, "@"); slices.Contains([]string{"npm", "pnpm", "yarn", "bun"}, name) {
		return name
	}
	for _, lock := range [][2]string{{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"}, {"pnpm-workspace.yaml", "pnpm"}} {
		if hasFile(root, lock[0]) {
			return lock[1]
		}
	}
	return "npm"
}

func hasPytest(root string) bool {
	data, err := durable.ReadBelow(root, "pyproject.toml", durable.MaxRecords)
	return err == nil && strings.Contains(string(data), "pytest")
}

// pythonTests returns pytest if the project names it, else unittest if there are tests, each run as the lockfile says.
func pythonTests(root string) []string {
	runner, python := "python3 -m ", "python3 -m "
	switch {
	case hasFile(root, "uv.lock"):
		runner, python = "uv run ", "uv run python -m "
	case hasFile(root, "poetry.lock"):
		runner, python = "poetry run ", "poetry run python -m "
	}
	switch {
	case hasPytest(root):
		return []string{runner + "pytest"}
	case len(durable.Glob(root, "test*.py")) > 0:
		return []string{python + "unittest discover"}
	case len(durable.Glob(filepath.Join(root, "tests"), "test*.py")) > 0:
		return []string{python + "unittest discover -s tests"}
	}
	return nil
}

// Limits for the packages of a monorepo: how deep they are searched, and for how many of them commands are proposed.
const (
	maxPackageDepth  = 3
	maxPackagesNamed = 8
)
