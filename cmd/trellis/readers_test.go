package main

import (
	"go/ast"
	"go/types"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// judging are the functions of package plan that take fields in, or judge them. A field that nobody else looks
// at has no reader. The eval harness judges too.
var judging = []string{"Parse", "ParseTaskSpec", "Salvage", "Format", "Stub", "Plan.Check"}

// TestFieldsOfPlansAreRead holds every field of plan.json and of a TaskSpec to be looked at by code that does
// something with it: a prompt, a check, a report. A field without a reader is deleted.
func TestFieldsOfPlansAreRead(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: repository(t)}, "./cmd/trellis", "./internal/...")
	if err != nil {
		t.Fatal(err)
	}
	r := readers{of: map[string]*use{}}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			t.Fatalf("loading %s: %v", p.PkgPath, p.Errors)
		}
		if p.PkgPath != module+"internal/eval" {
			r.take(p)
		}
	}
	read := r.read()
	for _, f := range planFields() {
		if !slices.Contains(read, f) && f != "Plan.SchemaVersion" { // which Parse reads, to know how to read the rest
			t.Errorf("nobody reads %s", f)
		}
	}
}

// planFields are the fields of all types that a plan.json and a TaskSpec are made of, as Type.Field.
func planFields() (list []string) {
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				if f := of.Field(i); f.IsExported() {
					list = append(list, of.Name()+"."+f.Name)
					look(f.Type)
				}
			}
		}
	}
	look(reflect.TypeFor[plan.Plan]())
	look(reflect.TypeFor[plan.TaskSpec]())
	return list
}

// readers knows what code reads and calls of package plan: each function of it by name, all others as "".
type readers struct{ of map[string]*use }

type use struct{ fields, calls []string }

func (r readers) take(p *packages.Package) {
	for _, file := range p.Syntax {
		for _, d := range file.Decls {
			name := ""
			if p.PkgPath == planPackage {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				name = nameOf(p.TypesInfo.Defs[f.Name].(*types.Func))
			}
			if r.of[name] == nil {
				r.of[name] = &use{}
			}
			r.of[name].look(p.TypesInfo, d)
		}
	}
}

const planPackage = module + "internal/plan"

// nameOf is a function of package plan as Name or Type.Name, "" for one of another.
func nameOf(f *types.Func) string {
	if f.Pkg() == nil || f.Pkg().Path() != planPackage {
		return ""
	}
	if recv := f.Signature().Recv(); recv != nil {
		of := recv.Type().String()
		return of[strings.LastIndex(of, ".")+1:] + "." + f.Name()
	}
	return f.Name()
}

// look notes what a declaration reads and calls of package plan. What is assigned to is not read.
func (u *use) look(info *types.Info, d ast.Decl) {
	assigned := map[ast.Expr]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				assigned[ast.Unparen(left)] = true
			}
		case *ast.SelectorExpr:
			if s := info.Selections[n]; s != nil && s.Kind() == types.FieldVal && !assigned[n] {
				u.fields = append(u.fields, selected(s)...)
			}
		case *ast.Ident:
			if f, ok := info.Uses[n].(*types.Func); ok && nameOf(f) != "" {
				u.calls = append(u.calls, nameOf(f))
			}
		}
		return true
	})
}

// selected are the fields of package plan on the way of a selection, those of embedded types included.
func selected(s *types.Selection) (list []string) {
	at := s.Recv()
	for _, i := range s.Index() {
		if p, ok := at.Underlying().(*types.Pointer); ok {
			at = p.Elem()
		}
		f := at.Underlying().(*types.Struct).Field(i)
		if named, ok := types.Unalias(at).(*types.Named); ok && f.Pkg().Path() == planPackage {
			list = append(list, named.Obj().Name()+"."+f.Name())
		}
		at = f.Type()
	}
	return list
}

// read are the fields that other packages read, and those that functions read which they call, judges aside.
func (r readers) read() (fields []string) {
	seen := map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		if seen[name] || r.of[name] == nil || slices.Contains(judging, name) {
			return
		}
		seen[name] = true
		fields = append(fields, r.of[name].fields...)
		for _, c := range r.of[name].calls {
			follow(c)
		}
	}
	follow("")
	return fields
}
