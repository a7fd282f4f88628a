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

// Flow code is every function that takes a flow.Flow, as a parameter or in its receiver, and everything that it reaches: an
// engine runs it again after a crash and must meet the same calls. Its calls are followed in the packages that hold
// flow code, through functions that are passed, held in fields or implement interfaces of theirs. Functions of other
// packages that it calls must be listed here: "*" is all except those that follow with a "!". Types and constants are free,
// since data does nothing. Functions given to Act.With and to an Activity are activities: they have effects, and are not followed.
var pureFuncs = map[string][]string{
	"bytes": {"*"}, "cmp": {"*"}, "errors": {"*"}, "iter": {"*"}, "math": {"*"}, "path": {"*"}, "regexp": {"*"},
	"slices": {"*"}, "sort": {"*"}, "strconv": {"*"}, "strings": {"*"}, "unicode": {"*"}, "unicode/utf8": {"*"},
	"crypto/sha256": {"Sum256"}, "encoding/hex": {"EncodeToString"}, "encoding/json": {"Marshal", "Unmarshal", "Valid"},
	"fmt":  {"Sprintf", "Sprint", "Sprintln", "Errorf"},
	"maps": {"*", "!Keys", "!Values", "!All"},
	"time": {"*", "!Now", "!Since", "!Until", "!After", "!AfterFunc", "!NewTicker", "!NewTimer", "!Sleep", "!Tick", "!LoadLocation", "!Time.Local"},

	module + "internal/text":        {"*"},
	module + "internal/trellis":     {"*"},
	module + "internal/engine/flow": {"*"},
	module + "internal/sandbox":     {"NetworkHint"},
	module + "internal/plan":        {"Fill", "Bundle.Plan", "Bundle.FileKey", "Plan.StepHash", "Plan.Verification", "Plan.VerificationAt", "Plan.VerifyingScriptsAt", "Step.Kind", "Step.Items", "Step.Loop", "Step.NeedsApproval", "Step.Provable", "Step.ProofKind", "Place.In"},
}

// impureYet lists functions that flow code reaches although they have effects, with the reason.
var impureYet = map[string]string{
	"internal/pipeline.inputs.Bundle": "reads the plan of a hash from the disk: named by its content and never changed, it is the same whenever it is asked for",
}

func TestFlowIsPure(t *testing.T) {
	p := newPurity(sourcesOf(t, "internal/...", "taskdir", "contextfiles", "specs", "templates", "agents"), impureYet)
	for _, found := range p.impurities() {
		t.Error(found)
	}
	for _, name := range []string{"internal/agentcall", "internal/planner", "internal/pipeline", "internal/workflow"} {
		if !p.flowing[module+name] {
			t.Errorf("no flow code is found in %s", name)
		}
	}
	for name := range impureYet {
		if !p.excused[name] {
			t.Errorf("flow code does not reach %s any more: take it off the list", name)
		}
	}
}

// TestImpurityIsSeen runs the check on a package in which every line that has an effect says which.
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
				want = append(want, fmt.Sprintf("%s/impure.go:%d: %s", dir, i+1, what))
			}
		}
	}
	var got []string
	for _, found := range newPurity(sourcesOf(t, dir), nil).impurities() {
		what, _, _ := strings.Cut(found, ", reached ")
		got = append(got, what)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// purity checks all flow code of some packages.
type purity struct {
	bodies  map[*types.Func]body
	values  map[*types.Var][]expr // the values of a variable, field or parameter of function type
	types   []types.Type          // that may implement interfaces
	flowing map[string]bool       // paths of packages with flow code
	excuses map[string]string
	excused map[string]bool

	seen  map[any]bool
	todo  []func()
	found map[string]token.Position

	pkg *packages.Package // package of the code under inspection
	in  string            // its function, for people
	via string            // how that function was reached
}

type body struct {
	pkg  *packages.Package
	decl *ast.FuncDecl
}

type expr struct {
	pkg *packages.Package
	ast.Expr
}

func newPurity(pkgs []*packages.Package, excuses map[string]string) *purity {
	p := &purity{bodies: map[*types.Func]body{}, values: map[*types.Var][]expr{}, flowing: map[string]bool{}, excuses: excuses,
		excused: map[string]bool{}, seen: map[any]bool{}, found: map[string]token.Position{}}
	for _, pkg := range pkgs {
		if strings.HasPrefix(pkg.PkgPath, module+"internal/engine/") || strings.Contains(pkg.PkgPath, "/testdata/") && len(pkgs) > 1 {
			continue // the engine is what flow code runs on
		}
		p.pkg = pkg
		for _, name := range pkg.Types.Scope().Names() {
			if o, ok := pkg.Types.Scope().Lookup(name).(*types.TypeName); ok && !o.IsAlias() {
				p.types = append(p.types, o.Type())
			}
		}
		for _, file := range pkg.Syntax {
			ast.Inspect(file, p.index)
		}
	}
	return p
}

// impurities lists the effects in flow code, as file:line: what, reached how.
func (p *purity) impurities() (list []string) {
	for len(p.todo) > 0 {
		next := p.todo[0]
		p.todo = p.todo[1:]
		next()
	}
	for line := range p.found {
		list = append(list, line)
	}
	slices.SortFunc(list, func(a, b string) int {
		x, y := p.found[a], p.found[b]
		if c := strings.Compare(x.Filename, y.Filename); c != 0 {
			return c
		}
		return x.Offset - y.Offset
	})
	return list
}

// index records where functions are declared and what variables of function type are given, and queues flow code for inspection.
func (p *purity) index(n ast.Node) bool {
	info, pkg := p.pkg.TypesInfo, p.pkg
	switch n := n.(type) {
	case *ast.FuncDecl:
		f := info.Defs[n.Name].(*types.Func)
		p.bodies[f] = body{pkg, n}
		if takesFlow(f.Signature()) {
			p.flowing[pkg.PkgPath] = true
			p.todo = append(p.todo, func() { p.follow(f) })
		}
	case *ast.FuncLit:
		if takesFlow(info.TypeOf(n).(*types.Signature)) {
			p.flowing[pkg.PkgPath] = true
			p.todo = append(p.todo, func() { p.inspect(pkg, "a function", "", n.Body) })
		}
	case *ast.AssignStmt:
		if len(n.Lhs) == len(n.Rhs) {
			for i := range n.Lhs {
				p.gives(varOf(info, n.Lhs[i]), n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		for i := range n.Values {
			if len(n.Names) == len(n.Values) {
				p.gives(varOf(info, n.Names[i]), n.Values[i])
			}
		}
	case *ast.CompositeLit:
		p.indexFields(n)
	case *ast.CallExpr:
		if f, ok := calleeOf(info, n).(*types.Func); ok {
			params := f.Origin().Signature().Params()
			for i, arg := range n.Args {
				if params.Len() > 0 {
					p.gives(params.At(min(i, params.Len()-1)), arg)
				}
			}
		}
	}
	return true
}

func (p *purity) indexFields(n *ast.CompositeLit) {
	info := p.pkg.TypesInfo
	of, ok := info.TypeOf(n).Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			p.gives(varOf(info, kv.Key), kv.Value)
		} else {
			p.gives(of.Field(i), e)
		}
	}
}

func (p *purity) gives(v *types.Var, value ast.Expr) {
	if v != nil && isFunc(v.Type()) {
		p.values[v.Origin()] = append(p.values[v.Origin()], expr{p.pkg, value})
	}
}

func isFunc(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

func varOf(info *types.Info, e ast.Expr) *types.Var {
	v, _ := objectOf(info, e).(*types.Var)
	return v
}

func calleeOf(info *types.Info, n *ast.CallExpr) types.Object { return objectOf(info, n.Fun) }

// objectOf returns the object that a name, with or without a selector, refers to.
func objectOf(info *types.Info, e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.IndexExpr: // of a generic function
		return objectOf(info, e.X)
	case *ast.SelectorExpr:
		return info.Uses[e.Sel]
	case *ast.Ident:
		return info.ObjectOf(e)
	}
	return nil
}

// takesFlow reports whether the parameters or the receiver of a function make it flow code.
func takesFlow(s *types.Signature) bool {
	for v := range s.Params().Variables() {
		if isFlow(v.Type()) {
			return true
		}
	}
	if s.Recv() == nil {
		return false
	}
	of := s.Recv().Type()
	if ptr, ok := of.(*types.Pointer); ok {
		of = ptr.Elem()
	}
	fields, ok := of.Underlying().(*types.Struct)
	for i := 0; ok && i < fields.NumFields(); i++ {
		if isFlow(fields.Field(i).Type()) {
			return true
		}
	}
	return false
}

func isFlow(t types.Type) bool { return t.String() == module+"internal/engine/flow.Flow" }

// follow inspects a function of ours that flow code calls, or may call.
func (p *purity) follow(f *types.Func) {
	f = f.Origin()
	name := strings.TrimPrefix(f.Pkg().Path(), module) + "." + purityName(f)
	if p.seen[f] {
		return
	}
	p.seen[f] = true
	if p.excuses[name] != "" {
		p.excused[name] = true
		return
	}
	if b, ok := p.bodies[f]; ok {
		p.inspect(b.pkg, name, p.in, b.decl.Body)
		return
	}
	if recv := f.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
		p.implementations(f, recv.Type().Underlying().(*types.Interface))
	}
}

// implementations follows a method of an interface to all types of ours that implement it.
func (p *purity) implementations(f *types.Func, of *types.Interface) {
	for _, t := range p.types {
		ptr := types.NewPointer(t)
		if types.IsInterface(t) || !types.Implements(ptr, of) {
			continue
		}
		if o, _, _ := types.LookupFieldOrMethod(ptr, true, f.Pkg(), f.Name()); o != nil {
			p.follow(o.(*types.Func))
		}
	}
}

func (p *purity) inspect(pkg *packages.Package, in, via string, n ast.Node) {
	before := *p
	p.pkg, p.in, p.via = pkg, in, via
	ast.Inspect(n, p.look)
	p.pkg, p.in, p.via = before.pkg, before.in, before.via
}

// given follows the values of a variable of function type. Functions that take a Flow are inspected anyway.
func (p *purity) given(id *ast.Ident, v *types.Var) {
	v = v.Origin()
	if p.seen[v] || takesFlow(v.Type().Underlying().(*types.Signature)) {
		return
	}
	p.seen[v] = true
	values := p.values[v]
	if len(values) == 0 && !v.IsField() && v.Parent() != nil && v.Parent() != v.Pkg().Scope() && !p.declared(v) {
		p.report(id, "call of %s, which can't be followed", v.Name())
	}
	for _, value := range values {
		p.value(value.pkg, value.Expr)
	}
}

// declared reports whether a variable is a parameter of a named function: if nobody calls that, the parameter has no value.
func (p *purity) declared(v *types.Var) bool {
	for f := range p.bodies {
		for param := range f.Signature().Params().Variables() {
			if param == v {
				return true
			}
		}
	}
	return false
}

// value follows an expression whose value is a function that flow code may call. Effects of the expression itself occur elsewhere.
func (p *purity) value(pkg *packages.Package, e ast.Expr) {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		p.inspect(pkg, "a function", p.in, e.Body)
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
		if o := objectOf(pkg.TypesInfo, e); o != nil && o != types.Universe.Lookup("nil") {
			p.inspect(pkg, p.in, p.via, nameIn(e))
		}
	case *ast.CallExpr:
		f, _ := calleeOf(pkg.TypesInfo, e).(*types.Func)
		if b, ok := p.bodies[f]; ok {
			p.returned(b)
		} else if pkg.TypesInfo.Types[e.Fun].IsType() {
			p.value(pkg, e.Args[0])
		}
	}
}

func nameIn(e ast.Expr) ast.Node {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		return e.Sel
	case *ast.IndexExpr:
		return nameIn(e.X)
	}
	return e
}

// returned follows the functions that a function returns.
func (p *purity) returned(b body) {
	ast.Inspect(b.decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			for _, e := range n.Results {
				if t := b.pkg.TypesInfo.TypeOf(e); t != nil && isFunc(t) {
					p.value(b.pkg, e)
				}
			}
		}
		return true
	})
}

func (p *purity) report(n ast.Node, format string, args ...any) {
	at := p.pkg.Fset.Position(n.Pos())
	dir := strings.TrimPrefix(p.pkg.PkgPath, module)
	line := fmt.Sprintf("%s/%s:%d: %s", dir, filepath.Base(at.Filename), at.Line, fmt.Sprintf(format, args...))
	for old := range p.found {
		if old == line || strings.HasPrefix(old, line+", reached ") {
			return
		}
	}
	if p.via != "" {
		line += fmt.Sprintf(", reached from %s", p.via)
	}
	p.found[line] = at
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
	case *ast.CompositeLit:
		return p.pkg.TypesInfo.TypeOf(n).String() != module+"internal/engine/flow.Activity"
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

// assigns reports changes of package variables, which a second run of the code would see.
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

// call allows two effects that stay inside: printing into a buffer, and reading the keys of a map in sorted order.
func (p *purity) call(n *ast.CallExpr) bool {
	switch name := p.callee(n); {
	case strings.HasSuffix(name, ".With") && strings.Contains(name, "engine/flow.Act["):
		return false
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
	if f, ok := calleeOf(p.pkg.TypesInfo, n).(*types.Func); ok {
		return f.FullName()
	}
	return ""
}

func (p *purity) buffer(e ast.Expr) bool {
	of := p.pkg.TypesInfo.TypeOf(e).String()
	return of == "*strings.Builder" || of == "*bytes.Buffer"
}

// use reports a name of another package that has effects, and follows a name of ours.
func (p *purity) use(id *ast.Ident) {
	switch o := p.pkg.TypesInfo.Uses[id].(type) {
	case *types.Builtin:
		if strings.HasPrefix(o.Name(), "print") {
			p.report(id, "call of %s", o.Name())
		}
	case *types.Func:
		p.useFunc(id, o)
	case *types.Var:
		switch {
		case o.Pkg() != nil && !p.flowing[o.Pkg().Path()] && o.Parent() == o.Pkg().Scope() && o.Type().String() != "error":
			p.report(id, "use of %s.%s", o.Pkg().Name(), o.Name())
		case isFunc(o.Type()):
			p.given(id, o)
		}
	}
}

func (p *purity) useFunc(id *ast.Ident, f *types.Func) {
	switch {
	case f.Pkg() == nil: // error.Error
	case p.flowing[f.Pkg().Path()]:
		p.follow(f)
	case p.excuses[strings.TrimPrefix(f.Pkg().Path(), module)+"."+purityName(f)] != "":
		p.follow(f)
	default:
		name, rules := purityName(f), pureFuncs[f.Pkg().Path()]
		if slices.Contains(rules, "!"+name) || !slices.Contains(rules, "*") && !slices.Contains(rules, name) {
			p.report(id, "call of %s.%s", f.Pkg().Name(), name)
		}
	}
}

// purityName returns the name of a function, or Type.Name for a method.
func purityName(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Name()
	}
	of, _, _ := strings.Cut(strings.TrimPrefix(recv.Type().String(), "*"), "[")
	return of[strings.LastIndex(of, ".")+1:] + "." + f.Name()
}
