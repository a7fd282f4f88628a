package structure

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// opening are the functions of the standard library that open a file by its name, and so wait for a pipe, follow a link or read an
// endless file into memory. os.ReadDir and filepath.WalkDir only open folders, and follow no link in them.
var opening = []string{
	"os.ReadFile", "os.Open", "os.OpenFile", "os.OpenRoot", "os.OpenInRoot", "os.DirFS", "os.CopyFS", "os.Create", "os.WriteFile",
	"os.Root.Open", "os.Root.OpenFile", "os.Root.OpenRoot", "os.Root.ReadFile", "os.Root.WriteFile", "os.Root.Create", "os.Root.FS",
	"io/fs.ReadFile", "io/fs.ReadDir", "io/fs.WalkDir", "io/ioutil.ReadFile",
}

// What openers open, and why that is not a file that somebody else controls.
const (
	durableOpened = "below durable, these are the one way"
	kernelOpened  = "the system's own file, or a pipe of ours"
	gitOpened     = "in git's own folder or the user's settings, which git itself reads as they are and no commit writes"
	folderOpened  = "a folder is opened to remove, to list or to look whether something is there; what is in it is read by durable"
	namedOpened   = "a person named the file, who may name a pipe"
	homeOpened    = "of the user's home: settings and accounts of agent programs"
	freshOpened   = "from the program itself, or into a folder that it has just made"
	copiedOpened  = "a folder that worktree.copy names, of which fs.CopyFS takes regular files and links alone"
	builtOpened   = "a file of this project's own checkout, read when a release is made of it"
	procsOpened   = "the process list, and what it says of a process"
)

// openers may open files by themselves, each for its reason. All other code reads below a checkout, a worktree or a task's
// directory by durable.ReadBelow and its variants, and writes there by durable.OpenOwn and durable.Disk.
var openers = map[string]string{
	"internal/changelog.Read":                builtOpened,
	"internal/changelog.readRelease":         builtOpened,
	"internal/durable.Disk.CheckSpace":       durableOpened,
	"internal/durable.Disk.SyncDir":          durableOpened,
	"internal/durable.OpenOwn":               durableOpened,
	"internal/durable.openFolder":            durableOpened,
	"internal/durable.lockSwaps":             durableOpened,
	"internal/durable.createUnique":          durableOpened,
	"internal/durable.readOnce":              durableOpened,
	"internal/durable.createTemp":            durableOpened,
	"internal/durable.createBelow":           durableOpened,
	"internal/durable.openIn":                durableOpened,
	"internal/durable.openRoot":              durableOpened,
	"internal/proc.":                         kernelOpened,
	"internal/proc.BootID":                   kernelOpened,
	"internal/proc.environ":                  kernelOpened,
	"internal/proc.onTerminal":               kernelOpened,
	"internal/proc.cgroupOf":                 kernelOpened,
	"internal/proc.endCgroup":                kernelOpened,
	"internal/proc.makeCgroup":               kernelOpened,
	"internal/proc.populated":                kernelOpened,
	"internal/proc.pids":                     kernelOpened,
	"internal/proc.pipes.openInput":          kernelOpened,
	"internal/proc.pipes.openOutput":         kernelOpened,
	"internal/sandbox.sockets":               kernelOpened,
	"internal/sandbox.Box.restrictCell":      freshOpened,
	"internal/cli/doctor.diagnosis.system":   kernelOpened,
	"internal/git.Worktrees.branchIn":        gitOpened,
	"internal/git.Refs.isSymbolicRef":        gitOpened,
	"internal/git.Repo.looseCommit":          gitOpened,
	"internal/git.Trees.openObject":          gitOpened,
	"internal/git.isAbandonedAdmin":          gitOpened,
	"internal/git.Committer.commitToMerge":   gitOpened,
	"internal/git.Worktrees.worktree":        gitOpened,
	"internal/git.Worktree.Locked":           gitOpened,
	"internal/git.checkouts":                 gitOpened,
	"internal/git.commonDir":                 gitOpened,
	"internal/git/snapshot.copyIndex":        gitOpened,
	"internal/git.addFileHash":               gitOpened,
	"internal/git.halfMade":                  gitOpened,
	"internal/git.addSettings":               gitOpened,
	"internal/git.withMergeHead":             gitOpened,
	"internal/git.ReadConfigFile":            gitOpened,
	"internal/git.touch":                     gitOpened,
	"internal/git.WorktreeID.checkLinks":     folderOpened,
	"internal/git/snapshot.Backups.Discard":  folderOpened,
	"internal/git/snapshot.removeWithin":     folderOpened,
	"internal/git.Objects.scanFolder":        folderOpened,
	"internal/git/update.Updater.bothSides":  freshOpened,
	"internal/git.Index.WriteFresh":          freshOpened,
	"internal/git.Index.replaceIndex":        freshOpened,
	"internal/git.writeNew":                  freshOpened,
	"internal/git.entry.compareFile":         freshOpened,
	"internal/git.isGitProcess":              procsOpened,
	"internal/pipeline.openWorktree":         folderOpened,
	"internal/planner.checkout.exists":       folderOpened,
	"internal/ready.check.plan":              folderOpened,
	"contextfiles.Checker.Check":             folderOpened,
	"contextfiles.Fix":                       folderOpened,
	"contextfiles.assembly.open":             folderOpened,
	"agents.openFiles":                       folderOpened,
	"agents.files.walk":                      folderOpened,
	"specs.List":                             folderOpened,
	"internal/cli.readInput":                 namedOpened,
	"internal/runner.LoadFile":               namedOpened,
	"agents.Options.openCodeSignIn":          homeOpened,
	"agents.Options.createMissing":           homeOpened,
	"agents.namesIn":                         homeOpened,
	"agents.mentions":                        homeOpened,
	"internal/cli/setup.setups.scaffolding":  freshOpened,
	"internal/cli.demo.createRepository":     freshOpened,
	"internal/eval.Project.CreateRepository": freshOpened,
	"internal/pipeline.setup.writePointer":   freshOpened,
	"internal/pipeline.observer.layOut":      freshOpened,
	"internal/pipeline.copyFile":             freshOpened,
	"internal/pipeline.copyTree":             copiedOpened,
	"internal/cleanup.Runs.Remove":           folderOpened,
	"internal/cleanup.Run.collect":           folderOpened,
	"internal/cleanup.runsOf":                folderOpened,
}

// Edges F4, S4: code reads files that somebody else can write in no other way.
func TestReadersOfWhatOthersWrite(t *testing.T) {
	found := openingCalls(t, "internal/...", "taskdir", "contextfiles", "specs", "templates", "agents")
	for _, caller := range slices.Sorted(maps.Keys(found)) {
		if openers[caller] == "" {
			t.Errorf("%s calls %s: read what others can write by durable.ReadBelow, or say in openers why not", caller, strings.Join(found[caller], ", "))
		}
	}
	for _, caller := range slices.Sorted(maps.Keys(openers)) {
		if found[caller] == nil {
			t.Errorf("openers names %s, which opens nothing", caller)
		}
	}
}

// openingCalls returns the opening functions that are used, by caller: package.Function or package.Type.Method.
func openingCalls(t *testing.T, paths ...string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, p := range sourcesOf(t, paths...) {
		if slices.Contains(testingPackages, strings.TrimPrefix(p.PkgPath, module)) {
			continue
		}
		for _, file := range p.Syntax {
			for _, d := range file.Decls {
				for _, called := range usesOf(p.TypesInfo, d, opening) {
					found[callerName(p, d)] = append(found[callerName(p, d)], called)
				}
			}
		}
	}
	return found
}

// callerName returns the name of a declaration in openers.
func callerName(p *packages.Package, d ast.Decl) string {
	name := p.PkgPath + "." // the value of a variable
	if f, ok := d.(*ast.FuncDecl); ok {
		name = funcName(p.TypesInfo.Defs[f.Name].(*types.Func))
	}
	return strings.TrimPrefix(name, module)
}

// funcName returns the name of a function as path.Name or path.Type.Name.
func funcName(f *types.Func) string {
	return strings.NewReplacer("(", "", ")", "", "*", "").Replace(f.FullName())
}

// usesOf returns the functions among names that a declaration calls, or passes on as values.
func usesOf(info *types.Info, d ast.Decl, names []string) (list []string) {
	ast.Inspect(d, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if f, ok := info.Uses[id].(*types.Func); ok && slices.Contains(names, funcName(f)) {
				list = append(list, funcName(f))
			}
		}
		return true
	})
	return list
}
