package structure

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/programtest"
)

const module = "github.com/trellis-tasks/trellis/"

// floors is the floor plan: a package imports from lower floors only, never from its own or a higher one.
// A new package, or a package that has to move, is a change to this table with the reason in the commit.
var floors = [][]string{
	// patience waits, for all packages above, for conditions that can only be polled.
	{"internal/trellis", "internal/patience"},
	{"internal/engine/flow", "internal/durable", "internal/proc"},
	// runlock takes the lock of a run for a task directory, its journal and all packages above: durable's lock, proc's sweep.
	// secrets is how agents and sandboxes recognize secrets.
	// gateway is what agents reach models through, and the way out of a sandbox.
	// yamledit changes settings for commands.
	// prices has the prices by which agents estimate costs.
	{"internal/runlock", "internal/secrets", "internal/gateway", "internal/text", "internal/yamledit", "internal/prices"},
	// changelog is a release's description of itself, and roff is the format of its manual.
	// frontmatter is the YAML at the beginning of roles, guidelines and objectives.
	// criteria are the acceptance criteria of a document, and the conflict markers that a merge by git left there.
	{"internal/changelog", "internal/roff", "internal/frontmatter", "internal/criteria"},
	// events is what every face is notified of, and how that is worded.
	// diffview parses a diff for the packages that show it.
	// mcpclients puts the MCP server into the settings of the programs that start it.
	{"internal/events", "internal/diffview", "internal/mcpclients"},
	// upgrade replaces this program by another release of it.
	{"internal/upgrade"},
	// rest sends requests to trackers and forges.
	{"internal/rest", "internal/forge"},
	{"taskdir", "contextfiles", "specs", "templates", "agents", "internal/git", "internal/engine/journal", "internal/config", "internal/proof", "internal/research", "internal/pulse", "internal/github", "internal/gitlab"},
	{"internal/git/snapshot"},
	{"internal/git/update", "internal/agentcall", "internal/plan", "internal/notify", "internal/hooks", "internal/sandbox", "internal/roadmap", "internal/trust", "internal/tracker"},
	// taskref is the state of tasks on a remote, for machines that share them.
	{"internal/ready", "internal/workflow", "internal/trust/subject", "internal/cleanup", "internal/taskref"},
	// A question that a task's run asks more than once has a package of its own.
	{"internal/pipeline/bases", "internal/pipeline/passes"},
	{"internal/pipeline", "internal/planner"},
	// delivery takes what a run of the pipeline verified to where people review it.
	// traces sends spans of runs to a collector.
	{"internal/delivery", "internal/traces"},
	{"internal/runner", "internal/status", "internal/eval"},
	// stats adds up the journals of all tasks.
	// share lets several machines share tasks: it implements the Sharing of the runner, over taskref.
	{"internal/scheduler", "internal/stats", "internal/share"},
	// metrics exports for Prometheus what status and stats read.
	{"internal/metrics"},
	{"internal/app", "internal/terminal", "internal/stats/plot"},
	// tui, board and mcpserver are faces like the command line, beside its parts.
	{"internal/cli/command", "internal/tui", "internal/board", "internal/mcpserver"},
	{"internal/cli/editor", "internal/cli/commandline"},
	{"internal/cli/cleanup", "internal/cli/doctor", "internal/cli/trust", "internal/cli/outcome", "internal/cli/migrate", "internal/cli/task", "internal/cli/configure", "internal/cli/editing"},
	{"internal/cli/objective", "internal/cli/eval", "internal/cli/runfile", "internal/cli/setup", "internal/cli/watch", "internal/cli/review", "internal/cli/share"},
	{"internal/cli/validate"},
	{"internal/cli"},
	// releasefiles writes the files of a release other than the programs.
	{"cmd/trellis", "cmd/releasefiles"},
}

// testingPackages are for tests: other code does not import them. They may import from the floors up to that of their parent, and
// those without a parent on a floor from all floors.
var testingPackages = []string{"agents/agentstest", "agents/modelserver", "internal/engine/flow/flowtest", "internal/traces/tracestest", "internal/github/githubtest", "internal/github/githubtest/gh", "internal/gitlab/gitlabtest", "internal/runner/runnertest", "internal/board/boardtest", "internal/cleanup/cleanuptest", "internal/upgrade/upgradetest", "internal/gittest", "internal/programtest", "internal/soak", "internal/compat", "internal/structure", "e2e", "faults", "bench", "bench/instant", "bench/timed"}

// owners lists the packages that may import a library. All others go through them.
var owners = map[string][]string{
	"github.com/urfave/cli/v2": {"internal/cli", "internal/cli/command", "internal/cli/commandline", "internal/cli/cleanup", "internal/cli/doctor", "internal/cli/trust",
		"internal/cli/task", "internal/cli/objective", "internal/cli/eval", "internal/cli/runfile", "internal/cli/setup", "internal/cli/watch", "internal/cli/validate", "internal/cli/configure", "internal/cli/editing", "internal/cli/review", "internal/cli/share"},
	"golang.org/x/mod":                       {"internal/changelog", "internal/cli"}, // compares versions
	"golang.org/x/term":                      {"internal/cli/command"},
	"golang.org/x/net":                       {"internal/gateway"},
	"golang.org/x/sync":                      {"internal/pipeline"}, // several commands at once, and the first error of any
	"golang.org/x/sys":                       {"internal/durable", "internal/git", "internal/proc", "agents/agentstest"},
	"github.com/fsnotify/fsnotify":           {"internal/runner", "internal/scheduler", "internal/status"},
	"github.com/go-git/go-git/v5":            {"internal/git"},
	"github.com/go-git/go-billy/v5":          {"internal/git"},
	"github.com/rogpeppe/go-internal/diff":   {"internal/terminal"},
	"github.com/tidwall/gjson":               {"taskdir"},
	"github.com/tidwall/sjson":               {"taskdir"},
	"go.yaml.in/yaml/v3":                     {"internal/config", "internal/yamledit", "specs", "agents", "internal/eval", "internal/plan", "internal/roadmap", "internal/cli/setup"},
	"github.com/google/jsonschema-go":        {"templates", "internal/mcpserver"},
	"golang.org/x/text":                      {"internal/trellis", "internal/text"}, // normal forms of letters, and their width
	"github.com/yuin/goldmark":               {"internal/research", "internal/roadmap", "internal/board"},
	"github.com/bmatcuk/doublestar/v4":       {"agents", "specs", "internal/config", "internal/eval"},
	"github.com/BurntSushi/toml":             {"internal/secrets", "internal/cli/setup", "internal/mcpclients"},
	"github.com/tailscale/hujson":            {"internal/mcpclients"}, // the position of a member in JSON with comments
	"github.com/modelcontextprotocol/go-sdk": {"internal/mcpserver", "agents"},
	"github.com/tmaxmax/go-sse":              {"agents"}, // the format in which the servers of models answer
	"mvdan.cc/sh/v3":                         {"internal/research"},
	"aead.dev/minisign":                      {"internal/upgrade", "internal/upgrade/upgradetest"}, // who signed a release, offline; goreleaser signs in the same format
	// Libraries of the terminal UI: the loop and the keys, the width of letters, sixteen colours, reading that can be cancelled.
	"charm.land/bubbletea/v2":               {"internal/tui"},
	"github.com/charmbracelet/x/ansi":       {"internal/tui"},
	"github.com/charmbracelet/colorprofile": {"internal/tui"},
	"github.com/muesli/cancelreader":        {"internal/tui"},
	"github.com/wneessen/go-mail":           {"internal/notify"}, // SMTP with TLS and signing in, headers and bodies as mail has them
}

// testLibraries are only for tests and testing packages, except for those that owners lists too.
var testLibraries = []string{
	"github.com/rogpeppe/go-internal", "go.uber.org/goleak", "github.com/creack/pty", "golang.org/x/tools", "github.com/chromedp/chromedp", "github.com/chromedp/cdproto",
	"github.com/prometheus/client_golang", "github.com/prometheus/common", "github.com/prometheus/client_model", "github.com/VictoriaMetrics/metricsql", "go.opentelemetry.io/collector/pdata",
	"github.com/emersion/go-smtp", "github.com/emersion/go-sasl", "github.com/godbus/dbus",
}

// imports are the packages that one package imports, in its code and in its tests.
type imports struct{ code, tests map[string]bool }

func TestFloorPlan(t *testing.T) {
	packages := readImports(t, repository(t))
	floor := map[string]int{}
	for n, names := range floors {
		for _, name := range names {
			floor[name] = n
			if _, there := packages[name]; !there {
				t.Errorf("floor %d lists %s, which is gone", n, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		switch _, listed := floor[name]; {
		case slices.Contains(testingPackages, name):
			checkTestingPackage(t, name, packages[name].code, floor)
		case !listed:
			t.Errorf("package %s stands on no floor", name)
		default:
			checkFloor(t, name, packages[name], floor)
		}
	}
}

func checkFloor(t *testing.T, name string, in imports, floor map[string]int) {
	for _, target := range slices.Sorted(maps.Keys(in.code)) {
		if slices.Contains(testingPackages, target) {
			t.Errorf("%s imports %s, which is for tests", name, target)
		} else if n, ok := floor[target]; ok && n >= floor[name] {
			t.Errorf("%s (floor %d) imports %s (floor %d)", name, floor[name], target, n)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(in.tests)) {
		if n, ok := floor[target]; ok && n > floor[name] && !strings.HasPrefix(target, name+"/") { // except for packages in its own folder
			t.Errorf("the tests of %s (floor %d) import %s (floor %d)", name, floor[name], target, n)
		}
	}
}

func checkTestingPackage(t *testing.T, name string, in map[string]bool, floor map[string]int) {
	top, parent := 0, name
	for parent != "." && top == 0 {
		parent = path.Dir(parent)
		top = floor[parent]
	}
	if parent == "." {
		return
	}
	for target := range in {
		if n, ok := floor[target]; ok && n > top {
			t.Errorf("%s, for tests of %s (floor %d), imports %s (floor %d)", name, parent, top, target, n)
		}
	}
}

func TestLibraryOwners(t *testing.T) {
	used := map[string]bool{}
	for name, in := range readImports(t, repository(t)) {
		for target := range in.code {
			if !library(target) {
				continue
			}
			if owners[ownedAs(target)] == nil && slices.ContainsFunc(testLibraries, func(l string) bool { return strings.HasPrefix(target, l) }) {
				if !slices.Contains(testingPackages, name) {
					t.Errorf("%s imports %s, which is for tests", name, target)
				}
				continue
			}
			owned := ownedAs(target)
			used[owned+" "+name] = true
			if !slices.Contains(owners[owned], name) {
				t.Errorf("%s imports %s, which belongs to %v", name, target, owners[owned])
			}
		}
	}
	for library, names := range owners {
		for _, name := range names {
			if !used[library+" "+name] {
				t.Errorf("%s is listed as an owner of %s and does not import it", name, library)
			}
		}
	}
}

// library reports whether an import path is neither ours nor in the standard library.
func library(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return strings.Contains(first, ".")
}

// ownedAs returns the entry of owners that covers an import path, or the path itself.
func ownedAs(target string) string {
	for l := range owners {
		if target == l || strings.HasPrefix(target, l+"/") {
			return l
		}
	}
	return target
}

// readImports parses the import clauses of every package below root, for all operating systems.
// Paths of our packages are relative to the module.
func readImports(t *testing.T, root string) map[string]imports {
	t.Helper()
	packages := map[string]imports{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && d.IsDir() && file != root { // a separate module is above all floors
			return filepath.SkipDir
		}
		if filepath.Ext(file) == ".go" {
			return addImports(packages, root, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func addImports(packages map[string]imports, root, file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(root, filepath.Dir(file))
	if err != nil {
		return err
	}
	in, ok := packages[filepath.ToSlash(dir)]
	if !ok {
		in = imports{code: map[string]bool{}, tests: map[string]bool{}}
		packages[filepath.ToSlash(dir)] = in
	}
	for _, spec := range parsed.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		target = strings.TrimPrefix(target, module)
		if strings.HasSuffix(file, "_test.go") {
			in.tests[target] = true
		} else {
			in.code[target] = true
		}
	}
	return nil
}

// repository returns the root of this project.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := programtest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
