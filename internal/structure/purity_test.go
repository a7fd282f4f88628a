package structure

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// flowPackages hold flow code: everything in them but the effects in acts*.go must be pure, so that
// an engine can run it again after a crash and meet the same calls.
var flowPackages = []string{"internal/agentcall", "internal/planner", "internal/workflow", "internal/pipeline"}

// pureFuncs says which functions and methods flow code may call of other packages: "*" is all but those
// that follow with a "!". What is not listed is refused. Types and constants are free, since data does nothing.
var pureFuncs = map[string][]string{
	"bytes": {"*"}, "cmp": {"*"}, "errors": {"*"}, "iter": {"*"}, "math": {"*"}, "path": {"*"}, "regexp": {"*"},
	"slices": {"*"}, "sort": {"*"}, "strconv": {"*"}, "strings": {"*"}, "unicode": {"*"}, "unicode/utf8": {"*"},
	"crypto/sha256": {"Sum256"}, "encoding/hex": {"EncodeToString"}, "encoding/json": {"Marshal", "Unmarshal", "Valid"},
	"fmt":  {"Sprintf", "Sprint", "Sprintln", "Errorf"},
	"maps": {"*", "!Keys", "!Values", "!All"},
	"time": {"*", "!Now", "!Since", "!Until", "!After", "!AfterFunc", "!NewTicker", "!NewTimer", "!Sleep", "!Tick", "!LoadLocation", "!Time.Local"},

	module + "internal/trellis":     {"*"},
	module + "internal/engine/flow": {"*"},
	module + "internal/agentcall":   {"*"},
	module + "internal/workflow":    {"*"},
	module + "internal/sandbox":     {"NetworkHint"},
	module + "internal/plan":        {"Fill", "Bundle.Plan", "Bundle.Called", "Plan.StepHash", "Plan.Verification", "Plan.VerificationAt", "Plan.VerifyingScriptsAt", "Step.Kind", "Step.Loop", "Step.Provable", "Step.ProofKind", "Proof.Manual", "Place.In"},
}

func TestFlowIsPure(t *testing.T) {
	for _, name := range flowPackages {
		for _, found := range impurities(t, name) {
			t.Errorf("%s: %s", name, found)
		}
	}
	root := repository(t)
	for _, name := range []string{"internal/agentcall", "internal/planner", "internal/pipeline", "internal/workflow"} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil && !slices.Contains(flowPackages, name) {
			t.Errorf("%s holds flow code and is not listed", name)
		}
	}
}

// TestImpurityIsSeen runs the check on a package in which every line that does something says what.
func TestImpurityIsSeen(t *testing.T) {
	const dir = "internal/structure/testdata/impure"
	source, err := os.ReadFile("testdata/impure/impure.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, line := range strings.Split(string(source), "\n") {
		if _, what, ok := strings.Cut(line, "// want: "); ok {
			for _, what := range strings.Split(what, "; ") {
				want = append(want, fmt.Sprintf("impure.go:%d: %s", i+1, what))
			}
		}
	}
	got := impurities(t, dir)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// impurities lists what the flow code of a package does, as file:line: what.
func impurities(t *testing.T, name string) []string {
	t.Helper()
	p := &purity{pkg: sourcesOf(t, name)[0]}
	for _, file := range p.pkg.Syntax {
		if !p.effects(file.Pos()) {
			ast.Inspect(file, p.look)
		}
	}
	return p.found
}

// purity is the check of one package.
type purity struct {
	pkg   *packages.Package
	found []string
}

// effects reports whether a position lies in a file that may do things.
func (p *purity) effects(pos token.Pos) bool {
	file := filepath.Base(p.pkg.Fset.Position(pos).Filename)
	return strings.HasPrefix(file, "acts") || strings.HasSuffix(file, "_test.go")
}

func (p *purity) report(n ast.Node, format string, args ...any) {
	at := p.pkg.Fset.Position(n.Pos())
	line := fmt.Sprintf("%s:%d: %s", filepath.Base(at.Filename), at.Line, fmt.Sprintf(format, args...))
	if len(p.found) == 0 || p.found[len(p.found)-1] != line {
		p.found = append(p.found, line)
	}
}

func (p *purity) look(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		p.report(n, "a goroutine")
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		p.report(n, "a channel")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			p.report(n, "a channel")
		}
	case *ast.RangeStmt:
		p.ranges(n)
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			p.assigns(left)
		}
	case *ast.IncDecStmt:
		p.assigns(n.X)
	case *ast.CallExpr:
		return p.call(n)
	case *ast.Ident:
		p.use(n)
	}
	return true
}

func (p *purity) ranges(n *ast.RangeStmt) {
	switch p.pkg.TypesInfo.TypeOf(n.X).Underlying().(type) {
	case *types.Map:
		p.report(n, "the order of a map")
	case *types.Chan:
		p.report(n, "a channel")
	}
}

// assigns refuses changes of package variables, which a second run of the code would find changed.
func (p *purity) assigns(left ast.Expr) {
	for {
		switch e := left.(type) {
		case *ast.SelectorExpr:
			left = e.X
		case *ast.IndexExpr:
			left = e.X
		case *ast.StarExpr:
			left = e.X
		case *ast.ParenExpr:
			left = e.X
		case *ast.Ident:
			if v, ok := p.pkg.TypesInfo.Uses[e].(*types.Var); ok && v.Parent() == p.pkg.Types.Scope() {
				p.report(e, "a change of package variable %s", v.Name())
			}
			return
		default:
			return
		}
	}
}

// call lets through two effects that stay inside: printing into a buffer, and the keys of a map put in order.
func (p *purity) call(n *ast.CallExpr) bool {
	switch name := p.callee(n); {
	case (name == "fmt.Fprintf" || name == "fmt.Fprint" || name == "fmt.Fprintln") && p.buffer(n.Args[0]):
	case strings.HasPrefix(name, "slices.Sorted"):
		inner, ok := n.Args[0].(*ast.CallExpr)
		if !ok || !strings.HasPrefix(p.callee(inner), "maps.") {
			return true
		}
		n = inner
	default:
		return true
	}
	for _, arg := range n.Args {
		ast.Inspect(arg, p.look)
	}
	return false
}

func (p *purity) callee(n *ast.CallExpr) string {
	fun := n.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	if s, ok := fun.(*ast.SelectorExpr); ok {
		if f, ok := p.pkg.TypesInfo.Uses[s.Sel].(*types.Func); ok {
			return f.FullName()
		}
	}
	return ""
}

func (p *purity) buffer(e ast.Expr) bool {
	of := p.pkg.TypesInfo.TypeOf(e).String()
	return of == "*strings.Builder" || of == "*bytes.Buffer"
}

// use refuses a name of another package that does something, and one of our own that is declared among the effects.
func (p *purity) use(id *ast.Ident) {
	switch o := p.pkg.TypesInfo.Uses[id].(type) {
	case *types.Builtin:
		if strings.HasPrefix(o.Name(), "print") {
			p.report(id, "call of %s", o.Name())
		}
	case *types.Func:
		p.useFunc(id, o)
	case *types.Var:
		if o.Pkg() != nil && o.Pkg() != p.pkg.Types && o.Parent() == o.Pkg().Scope() && o.Type().String() != "error" {
			p.report(id, "use of %s.%s", o.Pkg().Name(), o.Name())
		}
	}
}

func (p *purity) useFunc(id *ast.Ident, f *types.Func) {
	if f.Pkg() == nil { // error.Error
		return
	}
	ours := strings.HasPrefix(f.Pkg().Path(), strings.TrimSuffix(module, "/"))
	if ours && p.effects(f.Pos()) {
		p.report(id, "call of the effect %s", f.Name())
		return
	}
	if f.Pkg() == p.pkg.Types {
		return
	}
	name := f.Name()
	if recv := f.Signature().Recv(); recv != nil {
		of := strings.TrimPrefix(recv.Type().String(), "*")
		name = of[strings.LastIndex(of, ".")+1:] + "." + name
	}
	rules := pureFuncs[f.Pkg().Path()]
	if slices.Contains(rules, "!"+name) || !slices.Contains(rules, "*") && !slices.Contains(rules, name) {
		p.report(id, "call of %s.%s", f.Pkg().Name(), name)
	}
}
