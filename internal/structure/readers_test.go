package structure

import (
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// judging are the functions of package plan that parse fields, or validate them. A field that no other code reads
// has no reader. The eval harness does not count either.
var judging = []string{"Parse", "ParseTaskSpec", "Salvage", "Format", "Stub", "Plan.Check"}

// TestFieldsOfPlansAreRead checks that every field of plan.json and of a TaskSpec is read by code that does something
// with it: a prompt, a check, a report. A field without a reader is deleted.
func TestFieldsOfPlansAreRead(t *testing.T) {
	r := readers{of: map[string]*use{}}
	for _, p := range sourcesOf(t, "internal/...") {
		if p.PkgPath != module+"internal/eval" {
			r.take(p)
		}
	}
	read := r.read()
	for _, f := range append(fieldsOf(reflect.TypeFor[plan.Plan](), "", nil), fieldsOf(reflect.TypeFor[plan.TaskSpec](), "", nil)...) {
		if !slices.Contains(read, f.name) && f.name != "Plan.SchemaVersion" { // Parse reads this one, to know how to read the rest
			t.Errorf("nobody reads %s", f.name)
		}
	}
}

// TestReadersAreDocumented checks that every such field has a row with its reader in docs/reference/plan.md.
func TestReadersAreDocumented(t *testing.T) {
	for heading, fields := range map[string][]planField{
		"| field of plan.json | reader |":     fieldsOf(reflect.TypeFor[plan.Plan](), "", nil),
		"| field of taskspec.json | reader |": fieldsOf(reflect.TypeFor[plan.TaskSpec](), "", nil),
	} {
		rows := readerRows(t, heading)
		for _, f := range fields {
			if f.place != "" && rows[f.place] == "" {
				t.Errorf("docs/reference/plan.md names no reader of %s (%s)", f.place, f.name)
			}
		}
	}
}

// readerRows returns the rows of a table of docs/reference/plan.md: readers by field.
func readerRows(t *testing.T, heading string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "docs", "reference", "plan.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), heading)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			rows[strings.Trim(cells[1], " `")] = strings.TrimSpace(cells[2])
		}
	}
	return rows
}

// planField is a field of a type that a plan.json or a TaskSpec consists of.
type planField struct {
	name  string // Type.Field
	place string // in the file, as docs/reference/plan.md spells it: steps[].id; "" if only the fields below it have rows
}

// fieldsOf returns the fields of a type and of the types below it. A type that contains itself is read once; a type
// without keys of its own is listed under the key of the field that holds it.
func fieldsOf(of reflect.Type, path string, within []reflect.Type) (list []planField) {
	within = append(within, of)
	for i := range of.NumField() {
		f := of.Field(i)
		if !f.IsExported() {
			continue
		}
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		place, below := strings.TrimPrefix(path+"."+key, "."), f.Type
		if key == "" {
			place = path
		}
		for below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice && below.Elem().Kind() != reflect.Uint8 {
			if below.Kind() == reflect.Slice && key != "" {
				place += "[]"
			}
			below = below.Elem()
		}
		name := of.Name() + "." + f.Name
		switch {
		case below.Kind() != reflect.Struct:
			list = append(list, planField{name, place})
		case slices.Contains(within, below):
			list = append(list, planField{name, strings.TrimSuffix(place, "[]")})
		default:
			list = append(append(list, planField{name, ""}), fieldsOf(below, place, within)...)
		}
	}
	return list
}

// readers has the fields and calls of package plan in code: those of each function of plan by its name, all others as "".
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

// nameOf returns the name of a function of package plan as Name or Type.Name, or "" for a function of another package.
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

// look records what a declaration reads and calls of package plan. A field that is assigned to is not read.
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

// selected returns the fields of package plan that a selection goes through, those of embedded types included.
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

// read returns the fields that other packages read, and those read by the functions that they call, except for judging ones.
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
