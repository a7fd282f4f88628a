package structure

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// faces lists the packages that the command line may import, besides its own folders. It asks internal/app for what is to happen,
// and takes types, names and errors from the packages below. What it calls there all the same is listed with the commands that
// do, so that the list gets shorter. nil: every command may import the package; "" is internal/cli itself.
var faces = map[string][]string{
	"internal/app":      nil, // what a person can ask for
	"internal/terminal": nil, // how a terminal shows it
	"internal/text":     nil, // words and numbers for people
	"internal/trellis":  nil, // statuses, codes, problems, roles
	"internal/runner":   nil, // requests, results, events
	"internal/status":   nil, // what is known about tasks and runs
	"internal/config":   nil, // settings
	"internal/hooks":    nil, // names of events
	"internal/events":   nil, // what happens
	"internal/stats":    nil, // numbers, and the fields by which they are grouped
	"taskdir":           nil, // tasks, names of files

	"agents":                  {"", "doctor", "outcome", "setup", "validate", "watch"},                                                                    // names, what they do; doctor and init look for them
	"contextfiles":            {"", "doctor", "task", "validate"},                                                                                         // commands that write and check them
	"internal/durable":        {"", "cleanup", "command", "doctor", "editing", "editor", "migrate", "objective", "outcome", "setup", "validate", "watch"}, // bounded reads of files that people name, HeldError
	"internal/cleanup":        {"cleanup"},                                                                                                                // what tasks have left behind
	"internal/engine/flow":    {"", "command", "doctor", "outcome", "runfile"},                                                                            // Failure
	"internal/engine/journal": {"doctor", "outcome"},                                                                                                      // ErrFenced; doctor looks for damage
	"internal/eval":           {"eval"},                                                                                                                   // the set and its marks
	"internal/git":            {"", "cleanup", "doctor", "eval", "outcome", "task", "trust"},                                                              // errors; doctor, eval and --context open repositories
	"internal/github":         {"objective"},                                                                                                              // whether somebody is signed in
	"internal/pipeline":       {"", "doctor", "watch"},                                                                                                    // Standing, its roles; doctor reads how far a run has come
	"internal/plan":           {"runfile"},                                                                                                                // reads a file of steps
	"internal/planner":        {"", "eval", "outcome"},                                                                                                    // Report, its roles
	"internal/proc":           {"", "command", "doctor", "editing", "runfile", "watch"},                                                                   // signals, the guard; demo and doctor run programs
	"internal/proof":          {"", "runfile"},                                                                                                            // verify and decisions: keys, approvals, findings; lines that are no decision
	"internal/pulse":          {"", "doctor", "watch"},                                                                                                    // whether a watcher is alive
	"internal/ready":          {"task", "validate"},                                                                                                       // what is missing from a task
	"internal/research":       {"doctor"},                                                                                                                 // whether a check command can run
	"internal/roadmap":        {"", "objective", "trust", "validate"},                                                                                     // objectives
	"internal/roff":           {""},                                                                                                                       // the manual is made of the command tree
	"internal/sandbox":        {"doctor", "setup"},                                                                                                        // whether this machine has one
	"internal/scheduler":      {"watch"},                                                                                                                  // runs the watcher
	"internal/trust":          {"outcome", "trust"},                                                                                                       // verdicts, and the ledger
	"internal/trust/subject":  {"setup", "trust"},                                                                                                         // what can be trusted
	"internal/upgrade":        {""},                                                                                                                       // releases of this program, independent of any project
	"internal/workflow":       {"", "runfile", "watch"},                                                                                                   // events, requests and results of steps
	"specs":                   {"migrate", "task", "validate"},                                                                                            // guidelines and roles of the project
	"templates":               {"validate"},                                                                                                               // checks the templates of the project

	"internal/tracker": {""}, // issues, and their names

	"internal/tui":        {""}, // the terminal UI
	"internal/board":      {""}, // the board
	"internal/mcpserver":  {""}, // the MCP server
	"internal/mcpclients": {""}, // the entries in the settings of the programs that start it
}

// screens are the packages that the terminal UI may import: what is known, what happens, and what a person can ask for.
var screens = []string{"agents", "internal/app", "internal/events", "internal/runner", "internal/status", "internal/terminal", "internal/text", "internal/trellis", "taskdir"}

// boards are the packages that the board may import, for the same purposes.
var boards = []string{"agents", "internal/app", "internal/diffview", "internal/events", "internal/metrics", "internal/runner", "internal/stats", "internal/stats/plot", "internal/status", "internal/terminal", "internal/text", "internal/trellis", "taskdir"}

// servers are the packages that the MCP server may import, for the same purposes.
var servers = []string{"agents", "internal/app", "internal/runner", "internal/status", "internal/terminal", "internal/text", "internal/trellis", "taskdir"}

func TestMCPServerIsAFace(t *testing.T)  { isFace(t, "internal/mcpserver", servers) }
func TestTerminalUIIsAFace(t *testing.T) { isFace(t, "internal/tui", screens) }
func TestBoardIsAFace(t *testing.T)      { isFace(t, "internal/board", boards) }

// isFace checks that a face imports nothing of Trellis but the packages in allowed, and that it imports each of these.
func isFace(t *testing.T, face string, allowed []string) {
	used := readImports(t, repository(t))[face].code
	for _, target := range slices.Sorted(maps.Keys(used)) {
		if ours(target) && !slices.Contains(allowed, target) {
			t.Errorf("%s imports %s: let internal/app do it, or list it with the reason", face, target)
		}
	}
	for _, target := range allowed {
		if !used[target] {
			t.Errorf("%s is listed to import %s, which it does not", face, target)
		}
	}
}

func TestFaces(t *testing.T) {
	used := map[string]map[string]bool{}
	for name, in := range readImports(t, repository(t)) {
		face, ok := strings.CutPrefix(name, "internal/cli")
		if !ok {
			continue
		}
		face = strings.TrimPrefix(face, "/")
		for target := range in.code {
			if strings.Contains(target, "internal/cli") || library(target) || !ours(target) {
				continue
			}
			if used[target] == nil {
				used[target] = map[string]bool{}
			}
			used[target][face] = true
		}
	}
	for _, target := range slices.Sorted(maps.Keys(used)) {
		allowed, listed := faces[target]
		for _, face := range slices.Sorted(maps.Keys(used[target])) {
			if !listed || allowed != nil && !slices.Contains(allowed, face) {
				t.Errorf("internal/cli %s imports %s: let internal/app do it, or list it with the reason", face, target)
			}
		}
	}
	for target, allowed := range faces {
		if used[target] == nil {
			t.Errorf("faces lists %s, which none imports", target)
		}
		for _, face := range allowed {
			if !used[target][face] {
				t.Errorf("faces lists internal/cli/%s with %s, which it does not import", face, target)
			}
		}
	}
}

// ours reports whether an import path is a package of this module.
func ours(target string) bool {
	for _, floor := range floors {
		if slices.Contains(floor, target) {
			return true
		}
	}
	return false
}
