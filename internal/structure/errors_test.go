package structure

import (
	"go/ast"
	"testing"
)

// cmp.Or evaluates all its arguments: of several calls that return an error, those after the first failure are made too, and their
// errors are lost. If all calls are to be made, the code uses errors.Join, otherwise an if.
func TestNoErrorIsLostInOr(t *testing.T) {
	ors := 0
	for _, p := range sourcesOf(t, "internal/...", "taskdir", "contextfiles", "specs", "agents") {
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if of := calleeOf(p.TypesInfo, call); of == nil || of.Pkg() == nil || of.Pkg().Path() != "cmp" || of.Name() != "Or" {
					return true
				}
				ors++
				calls := 0
				for _, arg := range call.Args {
					if _, ok := arg.(*ast.CallExpr); ok {
						calls++
					}
				}
				if calls > 1 && p.TypesInfo.TypeOf(call).String() == "error" {
					t.Errorf("%s: cmp.Or makes %d calls that may fail", p.Fset.Position(call.Pos()), calls)
				}
				return true
			})
		}
	}
	if ors < 50 {
		t.Errorf("only %d were looked at", ors)
	}
}
