package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// legacyKeys are keys that the config.yaml of Trellis 0.3 to 0.7 may have and that have no meaning here.
var legacyKeys = strings.Fields(`session_commit_message session_auto_commit session max_journal_lines language update registry workflow
	codex channel context_injection prompt_injection spec_injection spec_scope packages.<name>.git`)

// decoder fills a struct from YAML and goes on after a mistake, so that all mistakes are reported at once.
type decoder struct {
	file         string
	root         string           // main checkout; "": not known
	ignore       []string         // unknown keys to ignore; nil: all
	places       map[string]place // where each key is set
	problems     []trellis.Problem
	ignored      []string
	firstIgnored int          // line of the first ignored key
	table        func() []Row // returns the rows of the settings that are filled
}

type place struct {
	file string
	line int
	null bool

	mistake *trellis.Problem // the first mistake in the value; nil: none
}

// decode fills out, a pointer to a struct, from f.
func decode(f File, out any, ignore []string) *decoder {
	d := &decoder{file: f.Name, ignore: ignore, places: map[string]place{}}
	d.table = func() []Row { return rows(reflect.ValueOf(out).Elem(), "", "") }
	root, problem := parse(f)
	if problem != nil {
		d.problems = append(d.problems, *problem)
	}
	if root != nil {
		d.places[""] = place{file: f.Name, line: root.Line}
		d.value(root, reflect.ValueOf(out).Elem(), "", "", "")
	}
	if len(d.ignored) > 0 {
		d.problems = append(d.problems, trellis.Problem{File: f.Name, Line: d.firstIgnored, Warning: true,
			Message: "keys of another Trellis, ignored: " + strings.Join(d.ignored, ", ")})
	}
	return d
}

// parse returns the one document of a file, nil if it is empty.
func parse(f File) (*yaml.Node, *trellis.Problem) {
	dec := yaml.NewDecoder(bytes.NewReader(f.Data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		if at := trellis.ConflictAt(string(f.Data)); at >= 0 {
			return nil, &trellis.Problem{File: f.Name, Line: 1 + bytes.Count(f.Data[:at], []byte("\n")), Message: "not YAML: " + trellis.MergeConflict, Hint: trellis.MendMergeConflict}
		}
		_, message := text.YAMLError(err)
		return nil, &trellis.Problem{File: f.Name, Line: badLine(f.Data), Message: "not YAML: " + message}
	}
	if dec.Decode(&more) != io.EOF {
		return nil, &trellis.Problem{File: f.Name, Line: max(more.Line, 1), Message: "more than one YAML document"}
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// badLine returns the line that keeps data from being YAML: the lines before it are YAML. The parser's
// own number is that of the block around the mistake, or one too low, or missing.
func badLine(data []byte) int {
	lines := bytes.SplitAfter(data, []byte("\n"))
	for n := min(len(lines)-1, 1000); n > 0; n-- {
		var doc yaml.Node
		if yaml.Unmarshal(bytes.Join(lines[:n], nil), &doc) == nil {
			return n + 1
		}
	}
	return 1
}

func (d *decoder) isSet(key string) bool {
	p, ok := d.places[key]
	return ok && !p.null
}

// report reports a mistake where key is set.
func (d *decoder) report(key, format string, args ...any) {
	p := d.places[key]
	problem := trellis.Problem{File: cmp.Or(p.file, d.file), Line: p.line, Message: cmp.Or(key, "the file") + fmt.Sprintf(format, args...)}
	d.problems = append(d.problems, problem)
	list, _, _ := strings.Cut(key, "[") // the list that a wrong item spoils
	for _, spoiled := range []string{key, list} {
		if p, said := d.places[spoiled]; said && p.mistake == nil {
			p.mistake = &problem
			d.places[spoiled] = p
		}
	}
}

// recordPlace records where key is set; n is its value.
func (d *decoder) recordPlace(key string, line int, n *yaml.Node) {
	d.places[key] = place{file: d.file, line: line, null: dereference(n).ShortTag() == "!!null"}
}

func dereference(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func itemKey(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i+1) }

func joinKey(key, name string) string { return strings.TrimPrefix(key+"."+name, ".") }

// value sets v from n, or leaves it and reports why. generic is key with <name> in place of the keys of maps.
func (d *decoder) value(n *yaml.Node, v reflect.Value, key, generic string, tag reflect.StructTag) {
	n = dereference(n)
	null := n.ShortTag() == "!!null"
	switch kind := v.Kind(); {
	case null && (kind == reflect.Slice || kind == reflect.Map):
		v.SetZero()
	case null && tag.Get("oneof") != "" && kind == reflect.String && v.String() != "": // it is unclear which one was meant
		d.report(key, " is left empty: write one of %s, or leave out the line", strings.Join(strings.Fields(tag.Get("oneof")), ", "))
	case null:
	case kind == reflect.Struct:
		d.mapping(n, key, func(name string, value *yaml.Node) { d.field(name, value, v, key, generic) })
	case kind == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		d.mapping(n, key, func(name string, value *yaml.Node) {
			e := reflect.New(v.Type().Elem()).Elem()
			d.value(value, e, joinKey(key, name), joinKey(generic, "<"+tag.Get("key")+">"), tag)
			v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), e)
		})
	case kind == reflect.Slice:
		d.items(n, v, key, generic, tag)
	default:
		d.scalar(n, v, key, tag)
	}
}

// mapping calls each for every key of n.
func (d *decoder) mapping(n *yaml.Node, key string, each func(name string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.report(key, " is keys and values, not %s", describe(n))
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		k, value := dereference(n.Content[i]), n.Content[i+1]
		at := joinKey(key, k.Value)
		switch {
		case k.Kind != yaml.ScalarNode || k.Value == "":
			d.problems = append(d.problems, trellis.Problem{File: d.file, Line: k.Line, Message: "a key that is not text"})
		case d.places[at].line > 0:
			d.problems = append(d.problems, trellis.Problem{File: d.file, Line: k.Line, Message: fmt.Sprintf("%s is set twice, first in line %d", at, d.places[at].line)})
		default:
			d.recordPlace(at, k.Line, value)
			each(k.Value, value)
		}
	}
}

func (d *decoder) field(name string, value *yaml.Node, v reflect.Value, key, generic string) {
	var names []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Tag.Get("yaml") == name {
			d.value(value, v.Field(i), joinKey(key, name), joinKey(generic, name), f.Tag)
			return
		}
		names = append(names, f.Tag.Get("yaml"))
	}
	if at := joinKey(key, name); d.ignore == nil || slices.Contains(d.ignore, joinKey(generic, name)) {
		if len(d.ignored) == 0 {
			d.firstIgnored = d.places[at].line
		}
		d.ignored = append(d.ignored, at)
	} else {
		d.report(at, " is unknown%s", d.suggest(name, key, names))
	}
}

// suggest returns the key that may have been meant: one of that name elsewhere, or a similar one beside it.
func (d *decoder) suggest(name, key string, names []string) string {
	for _, r := range d.table() {
		if r.Key == name || strings.HasSuffix(r.Key, "."+name) {
			return fmt.Sprintf(" here (did you mean %s?)", r.Key)
		}
	}
	for _, r := range Table() {
		if r.Key == joinKey(key, name) || strings.HasPrefix(r.Key, joinKey(key, name)+".") {
			return " here: it is a setting of a project, in its config.yaml"
		}
	}
	if near := trellis.Nearest(name, names); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", joinKey(key, near))
	}
	if len(names) > 8 {
		return ""
	}
	return fmt.Sprintf(" (known: %s)", strings.Join(names, ", "))
}

func (d *decoder) items(n *yaml.Node, v reflect.Value, key, generic string, tag reflect.StructTag) {
	if n.Kind != yaml.SequenceNode {
		d.report(key, " is a list, as in [a, b], not %s", describe(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, e := range n.Content {
		d.recordPlace(itemKey(key, i), e.Line, e)
		if e := dereference(e); e.Kind == yaml.ScalarNode && strings.TrimSpace(e.Value) == "" || e.ShortTag() == "!!null" {
			d.report(itemKey(key, i), " is empty")
		}
		d.value(e, list.Index(i), itemKey(key, i), generic+"[]", tag)
	}
	v.Set(list)
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, key string, tag reflect.StructTag) {
	set := reflect.New(v.Type()).Elem()
	if n.Kind != yaml.ScalarNode {
		d.report(key, " is %s, not %s", kindOf(v.Type()), describe(n))
	} else if why := parseScalar(n, set); why != "" {
		d.report(key, " %s", why)
	} else if why := tagFault(set, v, tag); why != "" {
		d.report(key, " %s", why)
	} else {
		v.Set(set)
	}
}

// parseScalar sets v from a plain value, or returns why it can't.
func parseScalar(n *yaml.Node, v reflect.Value) string {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		t, err := time.ParseDuration(n.Value)
		if err != nil || t < 0 {
			return fmt.Sprintf("is a duration with a unit, such as 90s, 10m or 2h, not %q", n.Value)
		}
		v.SetInt(int64(t))
		return ""
	}
	whole := v.CanInt() && n.ShortTag() != "!!int"
	if whole || n.Decode(v.Addr().Interface()) != nil {
		return fmt.Sprintf("is %s, not %q", kindOf(v.Type()), n.Value)
	}
	return ""
}

// tagFault returns why a value does not keep to its tags, "" if it does. An empty text is allowed where it is the default.
func tagFault(v, before reflect.Value, tag reflect.StructTag) string {
	least, _ := strconv.ParseFloat(cmp.Or(tag.Get("min"), "0"), 64) // our own tags
	switch {
	case v.CanInt() && float64(v.Int()) < least, v.CanFloat() && !(v.Float() >= least && !math.IsInf(v.Float(), 0)):
		return fmt.Sprintf("is at least %v, not %v", least, v)
	case v.Kind() == reflect.String && tag.Get("oneof") != "" && (v.String() != "" || before.String() != ""):
		if all := strings.Fields(tag.Get("oneof")); !slices.Contains(all, v.String()) {
			return fmt.Sprintf("is one of %s, not %q", strings.Join(all, ", "), v.String())
		}
	}
	return ""
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values (text with a colon and a space in it needs quotes)"
	case yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(n.Value)
}

// kindOf returns the name of a type in messages.
func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "a whole number"
	}
	return "text"
}
