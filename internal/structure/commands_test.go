package structure

import (
	"go/ast"
	"go/constant"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

var (
	commandBefore = regexp.MustCompile(`(?:^|[^-] |[^a-z0-9./ ])trellis (?:approve|cancel|cleanup|deliver|diff|edit|logs|objective [a-z]+|plan|reject|retry|review|run|start|status|stop|submit|task [a-z-]+|trust|undo|validate|verify)(?: --?[a-z]+)* $`)
	verbs         = regexp.MustCompile(`%(?:%|[-+# 0]*[0-9.]*[a-zA-Z])`)
)

// A command that people are told to type works when it is pasted into a shell: each value after its words is one shell word.
// The folder of a task may have any name until somebody has renamed it, and so may files and branches.
func TestCommandsThatAreToldAreTyped(t *testing.T) {
	found := 0
	for _, p := range sourcesOf(t, "internal/...", "taskdir") {
		name := strings.TrimPrefix(p.PkgPath, module)
		flows := name == "internal/pipeline" || name == "internal/planner" || name == "internal/delivery" // which only get tasks that were ready
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				var put []ast.Expr
				switch n := n.(type) {
				case *ast.BinaryExpr:
					put = behindText(p, n)
				case *ast.CallExpr:
					if !flows {
						put = behindFormat(p, n)
					}
				}
				for _, e := range put {
					found++
					if at := p.Fset.Position(e.Pos()); !isWord(p, e) {
						t.Errorf("%s:%d puts a text into a command as it is: give it to trellis.ShellWord", filepath.Base(at.Filename), at.Line)
					}
				}
				return true
			})
		}
	}
	if found < 100 {
		t.Errorf("only %d commands with a word of their own were found", found)
	}
}

// behindText returns what a concatenation puts after the words of a command.
func behindText(p *packages.Package, n *ast.BinaryExpr) []ast.Expr {
	before := n.X
	if b, ok := n.X.(*ast.BinaryExpr); ok {
		before = b.Y
	}
	if text, known := textOf(p, before); n.Op == token.ADD && known && commandBefore.MatchString(text) {
		return []ast.Expr{n.Y}
	}
	return nil
}

// behindFormat returns what a call puts into its format after the words of a command.
func behindFormat(p *packages.Package, n *ast.CallExpr) (put []ast.Expr) {
	for i, arg := range n.Args {
		format, known := textOf(p, arg)
		if !known || strings.Contains(format, "%[") {
			continue
		}
		next := i + 1
		for _, at := range verbs.FindAllStringIndex(format, -1) {
			if format[at[0]:at[1]] == "%%" {
				continue
			}
			if next < len(n.Args) && commandBefore.MatchString(format[:at[0]]) {
				put = append(put, n.Args[next])
			}
			next++
		}
	}
	return put
}

// isWord reports whether an expression is one word of a shell: a call of ShellWord, a value other than a string, or a constant.
func isWord(p *packages.Package, e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok {
		if f := calleeOf(p.TypesInfo, call); f != nil && f.Name() == "ShellWord" {
			return true
		}
	}
	_, known := textOf(p, e)
	return known || p.TypesInfo.TypeOf(e).Underlying().String() != "string"
}

func textOf(p *packages.Package, e ast.Expr) (string, bool) {
	v := p.TypesInfo.Types[e].Value
	if v == nil || v.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(v), true
}
