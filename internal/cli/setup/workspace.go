package setup

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// workspace describes the packages of a repository, by the files of its own tools.
type workspace struct {
	tool     string   // the tool that joins them: go.work, pnpm, npm, yarn, bun, cargo, uv; "": separate packages, or only one
	packages []pkg    // in the order of their folders, without the top
	verify   []string // commands that check all of it, from the top
	setup    []string // commands that a fresh worktree needs
}

// pkg is a package of a repository with several.
type pkg struct{ name, dir string }

// findWorkspace finds the packages of the repository at root, and the commands for them.
func findWorkspace(root string) workspace {
	w := declaredWorkspace(root)
	if w.tool == "" {
		w.packages = namedPackages(packageDirs(root, "", 1))
		w.verify, w.setup = verifyCommands(root), setupCommands(root)
		if hasFile(root, "package.json") || hasFile(root, "go.mod") || hasFile(root, "Cargo.toml") || hasFile(root, "pyproject.toml") || hasTarget(root, "test") {
			return w
		}
		for _, p := range w.packages[:min(len(w.packages), maxPackagesNamed)] {
			w.verify = append(w.verify, inFolder(p.dir, verifyCommands(filepath.Join(root, p.dir)))...)
			w.setup = append(w.setup, inFolder(p.dir, setupCommands(filepath.Join(root, p.dir)))...)
		}
		return w
	}
	if hasTarget(root, "test") {
		w.verify = []string{"make test"}
	}
	return w
}

// declaredWorkspace returns the workspace that the files at the top declare, or the zero value.
func declaredWorkspace(root string) workspace {
	for _, read := range []func(string) workspace{goWorkspace, nodeWorkspace, cargoWorkspace, uvWorkspace} {
		if w := read(root); w.tool != "" {
			w.setup = append(w.setup, setupCommands(root)...)
			return w
		}
	}
	return workspace{}
}

// goWorkspace returns the workspace of go.work: https://go.dev/ref/mod#workspaces.
func goWorkspace(root string) workspace {
	data, err := durable.ReadBelow(root, "go.work", durable.MaxRecords)
	if err != nil {
		return workspace{}
	}
	var dirs, all []string
	for _, use := range regexp.MustCompile(`(?m)^\s*(?:use\s+)?(\.[^\s()]*)\s*(?://.*)?$`).FindAllStringSubmatch(string(data), -1) {
		dirs = append(dirs, path.Clean(use[1]))
		all = append(all, trellis.ShellWord(strings.TrimSuffix("./"+path.Clean(use[1]), "/.")+"/..."))
	}
	if len(dirs) == 0 {
		return workspace{}
	}
	list := strings.Join(all, " ")
	return workspace{tool: "go.work", packages: namedPackages(dirs), verify: []string{"go vet " + list, "go test " + list}}
}

// nodeWorkspace returns the workspace of package.json or pnpm-workspace.yaml. A script of the top replaces those of its packages.
func nodeWorkspace(root string) workspace {
	var m struct {
		manifest
		Workspaces json.RawMessage
	}
	if !readFile(root, "package.json", json.Unmarshal, &m) {
		return workspace{}
	}
	var globs []string
	var under struct{ Packages []string }
	if json.Unmarshal(m.Workspaces, &globs) != nil && json.Unmarshal(m.Workspaces, &under) == nil {
		globs = under.Packages
	}
	if readFile(root, "pnpm-workspace.yaml", yaml.Unmarshal, &under) {
		globs = under.Packages
	}
	if len(globs) == 0 {
		return workspace{}
	}
	w := workspace{tool: packageManager(root, m.manifest), packages: namedPackages(matchingFolders(root, globs, "package.json")), verify: nodeScripts(root)}
	if len(w.verify) > 0 {
		return w
	}
	for _, script := range []string{"lint", "test"} {
		if slices.ContainsFunc(w.packages, func(p pkg) bool { return hasScript(filepath.Join(root, p.dir), script) }) {
			w.verify = append(w.verify, runInAllCommand(w.tool, script, hasFile(root, ".yarnrc.yml")))
		}
	}
	return w
}

// runInAllCommand returns the command that runs a script in all packages that have it.
func runInAllCommand(manager, script string, berry bool) string {
	switch {
	case manager == "pnpm":
		return "pnpm -r --if-present run " + script
	case manager == "bun":
		return "bun run --filter '*' " + script
	case manager == "yarn" && berry:
		return "yarn workspaces foreach --all run " + script
	case manager == "yarn":
		return "yarn workspaces run " + script
	}
	return "npm run " + script + " --workspaces --if-present"
}

func hasScript(dir, script string) bool {
	var m manifest
	return readFile(dir, "package.json", json.Unmarshal, &m) && m.hasScript(script)
}

func cargoWorkspace(root string) workspace {
	var m struct {
		Workspace *struct{ Members []string }
	}
	if !readFile(root, "Cargo.toml", toml.Unmarshal, &m) || m.Workspace == nil {
		return workspace{}
	}
	return workspace{tool: "cargo", packages: namedPackages(matchingFolders(root, m.Workspace.Members, "Cargo.toml")), verify: []string{"cargo test --workspace"}}
}

// uvWorkspace returns the workspace of pyproject.toml: https://docs.astral.sh/uv/concepts/projects/workspaces.
func uvWorkspace(root string) workspace {
	var m struct {
		Tool struct {
			UV struct {
				Workspace *struct{ Members []string }
			}
		}
	}
	if !readFile(root, "pyproject.toml", toml.Unmarshal, &m) || m.Tool.UV.Workspace == nil {
		return workspace{}
	}
	w := workspace{tool: "uv", packages: namedPackages(matchingFolders(root, m.Tool.UV.Workspace.Members, "pyproject.toml"))}
	if hasPytest(root) || slices.ContainsFunc(w.packages, func(p pkg) bool { return hasPytest(filepath.Join(root, p.dir)) }) {
		w.verify = []string{"uv run --all-packages pytest"}
	}
	return w
}

// readFile decodes a file into a value by unmarshal, and reports whether the file exists and is valid.
func readFile(root, name string, unmarshal func([]byte, any) error, into any) bool {
	data, err := durable.ReadBelow(root, name, durable.MaxRecords)
	return err == nil && unmarshal(data, into) == nil
}

// matchingFolders returns the folders below root that match the globs of a workspace and have a manifest. A glob with ! excludes.
func matchingFolders(root string, globs []string, manifest string) (dirs []string) {
	for _, dir := range packageDirs(root, "", 1) {
		in := false
		for _, g := range globs {
			pattern, not := strings.CutPrefix(g, "!")
			if matchesGlob(path.Clean(pattern), dir) {
				in = !not
			}
		}
		if in && hasFile(filepath.Join(root, dir), manifest) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// matchesGlob reports whether a glob matches a folder. A ** at its end matches all folders below.
func matchesGlob(glob, dir string) bool {
	if above, ok := strings.CutSuffix(glob, "/**"); ok {
		return strings.HasPrefix(dir, above+"/")
	}
	ok, err := path.Match(glob, dir)
	return ok && err == nil
}

// namedPackages returns packages with the names of their folders, or of their whole paths where two have the same name.
func namedPackages(dirs []string) (list []pkg) {
	slices.Sort(dirs)
	count := map[string]int{}
	for _, dir := range dirs {
		count[trellis.Slug(path.Base(dir))]++
	}
	for _, dir := range dirs {
		name := trellis.Slug(path.Base(dir))
		if count[name] > 1 {
			name = trellis.Slug(dir)
		}
		if dir != "." && name != "" {
			list = append(list, pkg{name, dir})
		}
	}
	return list
}

// setupCommands returns the command that installs what a fresh checkout at root lacks, by its lockfile.
func setupCommands(root string) []string {
	for _, lock := range [][2]string{{"pnpm-lock.yaml", "pnpm install --frozen-lockfile"}, {"package-lock.json", "npm ci"}, {"bun.lock", "bun install --frozen-lockfile"},
		{"bun.lockb", "bun install --frozen-lockfile"}, {"uv.lock", "uv sync"}, {"poetry.lock", "poetry install"}} {
		if hasFile(root, lock[0]) {
			return []string{lock[1]}
		}
	}
	switch {
	case hasFile(root, "yarn.lock") && hasFile(root, ".yarnrc.yml"):
		return []string{"yarn install --immutable"}
	case hasFile(root, "yarn.lock"):
		return []string{"yarn install --frozen-lockfile"}
	}
	return nil
}

// inFolder returns commands so that they run in a folder when called from the top of the repository.
func inFolder(dir string, commands []string) (list []string) {
	for _, c := range commands {
		list = append(list, fmt.Sprintf("cd %s && %s", trellis.ShellWord(dir), c))
	}
	return list
}

// packageDirs returns the folders below dir that hold a package. It skips third-party code, test data and build output.
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
