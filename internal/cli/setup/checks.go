package setup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
)

// verifyCommands are the commands by which the project seems to check itself.
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
	case hasFile(root, "pyproject.toml") && hasPytest(root):
		return []string{pytest(root)}
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

// manifest is what package.json says of how its scripts are run.
type manifest struct {
	Scripts        map[string]string
	PackageManager string // name@version
}

// nodeScripts are those of the usual scripts that package.json has, run by the project's package manager.
func nodeScripts(root string) (list []string) {
	data, err := durable.ReadBelow(root, "package.json", durable.MaxRecords)
	var m manifest
	if err != nil || json.Unmarshal(data, &m) != nil {
		return nil
	}
	for _, name := range []string{"lint", "test", "build"} {
		if script := m.Scripts[name]; script != "" && !strings.Contains(script, "no test specified") {
			list = append(list, packageManager(root, m)+" run "+name)
		}
	}
	return list
}

// packageManager is the one that package.json names, or else whose lockfile is there.
func packageManager(root string, m manifest) string {
	if name, _, _ := strings.Cut(m.PackageManager, "@"); slices.Contains([]string{"npm", "pnpm", "yarn", "bun"}, name) {
		return name
	}
	for _, lock := range [][2]string{{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"}} {
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

// pytest is how the project's lockfile says that its tests are run.
func pytest(root string) string {
	switch {
	case hasFile(root, "uv.lock"):
		return "uv run pytest"
	case hasFile(root, "poetry.lock"):
		return "poetry run pytest"
	}
	return "python -m pytest"
}

// Where packages of a monorepo are looked for, and how many are named.
const (
	maxPackageDepth  = 3
	maxPackagesNamed = 8
)

// packagesBelow say which packages lie beneath the top, with what would check each of them.
func packagesBelow(root string) (lines []string) {
	found := packageDirs(root, "", 1)
	for _, dir := range found[:min(len(found), maxPackagesNamed)] {
		line := "package " + dir
		if commands := verifyCommands(filepath.Join(root, dir)); len(commands) > 0 {
			line += ": under verify it takes " + inFolder(dir, commands)
		}
		lines = append(lines, line)
	}
	if more := len(found) - maxPackagesNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more packages", more))
	}
	return lines
}

// inFolder are commands as the top of the repository runs them in a folder.
func inFolder(dir string, commands []string) string {
	var list []string
	for _, c := range commands {
		list = append(list, fmt.Sprintf("`cd %s && %s`", command.QuoteAll([]string{dir})[0], c))
	}
	return strings.Join(list, ", ")
}

// packageDirs are the folders below dir that hold a package of their own. What others wrote, or tests need, is passed over.
func packageDirs(root, dir string, depth int) (found []string) {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil || depth > maxPackageDepth {
		return nil
	}
	passed := []string{"node_modules", "vendor", "third_party", "testdata", "fixtures", "examples", "target", "dist", "build", "out"}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || slices.Contains(passed, e.Name()) {
			continue
		}
		at := filepath.Join(dir, e.Name())
		if slices.ContainsFunc([]string{"go.mod", "Cargo.toml", "package.json", "pyproject.toml"}, func(name string) bool { return hasFile(filepath.Join(root, at), name) }) {
			found = append(found, filepath.ToSlash(at))
		}
		found = append(found, packageDirs(root, at, depth+1)...)
	}
	return found
}
