package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// replacesWhole are the functions that write a file with WriteFile, whatever exists there: only files of Trellis, or in a folder
// that nobody else has yet. A file that people edit is written by Disk.Edit or Disk.Replace.
var replacesWhole = map[string]string{
	"internal/app/gate_store.go storeSettings":             "a copy of the settings in a folder of the state, which nobody edits",
	"internal/mcpclients/entry.go writeNote":               "a note in the folder of the state, which nobody edits",
	"internal/cli/setup/init.go createFiles":               "guidelines in a hidden folder; what is visible is made with Replace",
	"internal/cli/editor/editor.go Open":                   "a folder that it has just made",
	"internal/app/edits.go Check":                          "a copy of a task in a folder of .runtime that it has just made",
	"internal/app/edits.go copyTo":                         "a copy of a task in a folder of .runtime that Check has just made",
	"internal/app/boardkey.go writeBoardFile":              "the board's key in the folder of the state, and the file that leads there, which nobody edits",
	"internal/app/work.go RuntimeDir":                      ".runtime/.gitignore",
	"internal/cli/cmd_metrics.go replaceTextfile":          "a file for node_exporter, which only programs read",
	"internal/agentcall/caller.go events":                  "run/",
	"internal/agentcall/answer.go keepAndParse":            "run/",
	"internal/agentcall/unneeded.go callOff":               "run/",
	"internal/delivery/pull_status.go write":               "run/pull.json",
	"internal/delivery/record.go updateRecord":             "run/delivered.json",
	"internal/runner/approvals.go settleApproval":          "REJECTED.md, a page of Trellis; KeepRejection keeps one that is there",
	"internal/delivery/findings.go Write":                  "run/",
	"internal/runner/file_inputs.go keepFinished":          "run/inputs",
	"internal/proof/append.go load":                        "proofs.jsonl, the chain of Trellis alone",
	"internal/proof/approvals.go withWriteLock":            "run/.gitignore",
	"internal/git/stores.go writeAlternates":               "in a folder of objects",
	"internal/git/index.go ensureEmptyBlob":                "an object",
	"internal/git/worktrees.go writeOwner":                 "git's folder of a worktree",
	"internal/git/git.go makeCloneID":                      "a name that nobody else has, in git's folder",
	"internal/sandbox/gitconfig.go writeIfChanged":         "in git's folder, a copy of Trellis alone",
	"internal/engine/journal/lock.go makeFolder":           "run/.gitignore",
	"internal/engine/journal/run.go begin":                 "the journal",
	"internal/notify/book.go compact":                      "the book of news",
	"internal/roadmap/note.go writeNote":                   "run/",
	"internal/pipeline/commit.go hookResult":               "run/",
	"internal/pipeline/inputs.go writeFolder":              "run/inputs",
	"internal/pipeline/report.go conclude":                 "report.md, a page of Trellis",
	"internal/pipeline/refit.go Refit":                     "run/refit.json",
	"internal/pipeline/passes/passes.go Keep":              ".runtime/baseline, which nobody edits",
	"internal/pipeline/warmset.go fill":                    ".runtime/warm, which nobody edits",
	"internal/pipeline/inputs.go freezePlan":               "run/inputs",
	"internal/pipeline/commands.go runIn":                  "run/",
	"internal/pipeline/standards_watch.go keepUnconfirmed": "run/",
	"internal/pipeline/standards.go DoRecorded":            "run/",
	"internal/plan/frozen.go Save":                         "run/inputs",
	"internal/planner/evaluate.go reject":                  "REJECTED.md, a page of Trellis",
	"internal/planner/log.go WriteLog":                     ".plan-log, a page of Trellis",
	"internal/planner/files.go keepAt":                     "run/",
	"internal/runner/feedback.go addFeedback":              "run/",
	"internal/runner/ledger.go fold":                       ".runtime",
	"agents/talk.go save":                                  "run/",
	"internal/pulse/pulse.go Write":                        ".runtime",
	"internal/share/sightings.go write":                    ".runtime/shared",
	"internal/share/team.go importWork":                    ".runtime/shared",
	"internal/upgrade/program.go replace":                  "the program that an upgrade replaces",
	"internal/upgrade/program.go stage":                    "the program that is going to be there",
	"internal/upgrade/program.go replacePages":             "the manual, beside the program",
	"taskdir/create.go writeFiles":                         "a directory that has no name yet",
	"taskdir/repair.go saveBroken":                         "run/",
	"taskdir/update.go RunDir":                             "run/.gitignore",
}

// Edge F3: no code replaces a file of people without checking what they saved meanwhile.
func TestReadersAndWritersOfPeoplesFiles(t *testing.T) {
	found := map[string]bool{}
	root := filepath.Join("..", "..")
	for _, dir := range []string{"cmd", "internal", "taskdir", "contextfiles", "specs", "templates", "agents"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/durable/") {
				return err
			}
			wholeWriters(t, root, path, found)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for where := range found {
		if replacesWhole[where] == "" {
			t.Errorf("%s writes a file with WriteFile: is it one that people edit? Then Disk.Edit; else name it in this test", where)
		}
	}
	for where := range replacesWhole {
		if !found[where] {
			t.Errorf("%s writes nothing with WriteFile any more", where)
		}
	}
}

// Edge F2: only runlock and the journal take the lock of a run, and they end what a former holder left running.
func TestReadersOfTheRunLockTakeItOneWay(t *testing.T) {
	taken := regexp.MustCompile(`(TryLock|WaitLock|TakeOver)\(.*(RunLock|"run"|run/lock)`)
	root := repository(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir // installed tools
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/runlock/") {
			return err
		}
		data, err := os.ReadFile(path)
		for line := range strings.Lines(string(data)) {
			if (strings.Contains(line, "Lock(") || strings.Contains(line, "TakeOver(")) && taken.MatchString(line) {
				t.Errorf("%s: %s: runlock.Take takes this lock", path, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wholeWriters adds the functions of a file that call Disk.WriteFile.
func wholeWriters(t *testing.T, root, path string, found map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "WriteFile" && !isNamed(s.X, "os") && !isNamed(s.X, "root") {
				found[filepath.ToSlash(rel)+" "+f.Name.Name] = true
			}
			return true
		})
	}
}

func isNamed(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}
