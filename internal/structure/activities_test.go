package structure

import (
	"go/constant"
	"go/types"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestActivities holds the names of activities, and the JSON of their inputs and results, to those that journals were
// written with: a run that was begun before an update is resumed after it. A field may be added, with omitempty or
// omitzero; nothing may be renamed, change its type or be removed, unless the flow's Code says that it was. With
// TRELLIS_RECORD=1 the list is written again.
func TestActivities(t *testing.T) {
	const golden = "testdata/activities.golden"
	got := activities(sourcesOf(t, "internal/..."))
	if os.Getenv("TRELLIS_RECORD") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	before, now := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for _, line := range before {
		if !slices.Contains(now, line) {
			t.Errorf("journals have, and the code has not:\n%s", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(before, line) {
			t.Errorf("the code has, and journals have not:\n%s", line)
		}
	}
}

// activities lists all activities that have a name in the code, with the JSON of their input and result. Calls of agents,
// which have the names of roles, come first.
func activities(pkgs []*packages.Package) string {
	s := &shapes{names: map[string]bool{}}
	var lines []string
	add := func(name string, act types.Type) {
		args := act.(*types.Named).TypeArgs()
		lines = append(lines, name+": "+s.of(args.At(0), "")+" -> "+s.of(args.At(1), ""))
	}
	for _, pkg := range pkgs {
		if strings.HasPrefix(pkg.PkgPath, module+"internal/engine/") {
			continue
		}
		for e, of := range pkg.TypesInfo.Types {
			if of.IsType() && isAct(of.Type) && strings.HasSuffix(types.ExprString(e), "[Request, Reply]") {
				add("(a role)", of.Type)
			}
		}
		for _, o := range pkg.TypesInfo.Defs {
			if c, ok := o.(*types.Const); ok && isAct(c.Type()) {
				add(constant.StringVal(c.Val()), c.Type())
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n\n" + s.list()
}

func isAct(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Act" && named.Obj().Pkg().Path() == module+"internal/engine/flow" && named.TypeArgs().Len() == 2
}

// shapes are JSON objects, told apart by their fields. They do not contain names of Go types.
type shapes struct {
	names map[string]bool
}

// list returns a line for each field of each object that activities are given or return.
func (s *shapes) list() string {
	var lines []string
	for line := range s.names {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// of returns the JSON shape of t. within names the types that contain t, to stop at a type that contains itself.
func (s *shapes) of(t types.Type, within string) string {
	if name := t.String(); strings.Contains(within, "<"+name+">") {
		return "itself"
	} else if _, ok := t.(*types.Named); ok {
		within += "<" + name + ">"
	}
	switch t.String() {
	case "time.Time":
		return "time"
	case "encoding/json.RawMessage":
		return "json"
	}
	if method, _, _ := types.LookupFieldOrMethod(t, true, nil, "MarshalJSON"); method != nil {
		return "marshals itself"
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Name()
	case *types.Pointer:
		return "*" + s.of(u.Elem(), within)
	case *types.Slice:
		return "[]" + s.of(u.Elem(), within)
	case *types.Map:
		return "map[" + s.of(u.Key(), within) + "]" + s.of(u.Elem(), within)
	case *types.Struct:
		fields := s.fields(u, within)
		if len(fields) == 0 {
			return "{}"
		}
		shape := "{" + strings.Join(fields, "; ") + "}"
		if len(fields) < 4 {
			return shape
		}
		name := s.name(fields)
		s.names[name+" = "+shape] = true
		return name
	}
	return "any"
}

// name returns the name of a large object in the list: its first fields.
func (s *shapes) name(fields []string) string {
	var first []string
	for _, f := range fields[:4] {
		word, _, _ := strings.Cut(f, " ")
		first = append(first, word)
	}
	return "<" + strings.Join(first, "-") + ">"
}

func (s *shapes) fields(of *types.Struct, within string) (list []string) {
	for i := range of.NumFields() {
		f := of.Field(i)
		tag, tagged := reflect.StructTag(of.Tag(i)).Lookup("json")
		name, rest, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-" || !f.Exported() && !f.Embedded():
			continue
		case f.Embedded() && name == "":
			if inner, ok := f.Type().Underlying().(*types.Struct); ok {
				list = append(list, s.fields(inner, within)...)
				continue
			}
		}
		if !tagged || name == "" {
			name = f.Name()
		}
		line := name + " " + s.of(f.Type(), within)
		if rest != "" {
			line += " " + rest
		}
		list = append(list, line)
	}
	return list
}
