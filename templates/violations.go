package templates

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// maxProblems is the maximum number of problems that are reported at once.
const maxProblems = 20

// Violations returns where and why doc does not satisfy the schema, each as "<JSON pointer>: <reason>", in words for people and
// models; nil if it does. The library would stop at its first error and refer to a schema, so the usual keywords are checked
// here. A document without violations is finally checked by the library.
func Violations(schema, doc json.RawMessage) ([]string, error) {
	r, err := rulesOf(schema)
	if err != nil {
		return nil, err
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return []string{"/: " + err.Error()}, nil
	}
	c := checker{rules: r}
	c.walk(r.root, "", v)
	if c.err == nil && len(c.found) == 0 {
		c.validateByLibrary(doc)
	}
	return c.found[:min(len(c.found), maxProblems)], c.err
}

// rules is a parsed and valid schema.
type rules struct {
	root     *jsonschema.Schema
	resolved *jsonschema.Resolved
	patterns sync.Map // text to *regexp.Regexp
}

// schemaCache caches the parsed schemas by their text. There are as many as there are schema files.
var schemaCache sync.Map

func rulesOf(schema json.RawMessage) (*rules, error) {
	if r, ok := schemaCache.Load(string(schema)); ok {
		return r.(*rules), nil
	}
	r := &rules{root: new(jsonschema.Schema)}
	err := json.Unmarshal(schema, r.root)
	if err == nil {
		r.resolved, err = r.root.Resolve(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	kept, _ := schemaCache.LoadOrStore(string(schema), r)
	return kept.(*rules), nil
}

// pattern returns a regular expression of the schema. It is known to compile, as Resolve has compiled all of them.
func (r *rules) pattern(text string) *regexp.Regexp {
	if p, ok := r.patterns.Load(text); ok {
		return p.(*regexp.Regexp)
	}
	p := regexp.MustCompile(text)
	r.patterns.Store(text, p)
	return p
}

// checker checks one document against one schema.
type checker struct {
	*rules
	found []string
	err   error // the schema has something that this checker does not support
}

func (c *checker) add(at, format string, args ...any) {
	at = cmp.Or(at, "/")
	c.found = append(c.found, at+": "+fmt.Sprintf(format, args...))
}

func (c *checker) walk(s *jsonschema.Schema, at string, v any) {
	if s = c.resolveRef(s); c.err != nil || !c.checkShape(s, at, v) {
		return
	}
	before := len(c.found)
	switch v := v.(type) {
	case map[string]any:
		c.checkObject(s, at, v)
	case []any:
		c.checkList(s, at, v)
	case string:
		c.checkText(s, at, v)
	case json.Number:
		c.checkNumber(s, at, v)
	}
	if len(c.found) == before { // rules that involve several parts
		c.checkCompound(s, at, v)
	}
}

// resolveRef returns the schema that s refers to. Only annotations may stand next to a reference.
func (c *checker) resolveRef(s *jsonschema.Schema) *jsonschema.Schema {
	for range 8 {
		if s.Ref == "" {
			return s
		}
		name, _ := strings.CutPrefix(s.Ref, "#/$defs/")
		target := c.root.Defs[name]
		if target == nil {
			break
		}
		s = target
	}
	c.err = fmt.Errorf("resolving %s: no such definition", s.Ref)
	return s
}

// checkShape checks a value's type, const and enum.
func (c *checker) checkShape(s *jsonschema.Schema, at string, v any) bool {
	if types := typesOf(s); len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return hasType(t, v) }) {
		c.add(at, "must be %s, not %s", typesPhrase(types), valuePhrase(v))
		return false
	}
	if s.Const != nil && !equalJSON(*s.Const, v) {
		c.add(at, "must be %s, not %s", titleOr(s, shortJSON(*s.Const)), shortJSON(v))
		return false
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e any) bool { return equalJSON(e, v) }) {
		c.add(at, "must be one of %s, not %s", valueList(s.Enum), shortJSON(v))
		return false
	}
	return true
}

func (c *checker) checkObject(s *jsonschema.Schema, at string, v map[string]any) {
	for _, key := range s.Required {
		if _, ok := v[key]; !ok {
			c.add(at+"/"+escape(key), "is missing")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		inner := at + "/" + escape(key)
		sub, known := s.Properties[key]
		switch {
		case known:
			c.walk(sub, inner, v[key])
		case s.AdditionalProperties == nil:
		case isFalseSchema(s.AdditionalProperties):
			c.add(inner, "is not a known key%s", keyHint(key, slices.Sorted(maps.Keys(s.Properties))))
		default:
			c.walk(s.AdditionalProperties, inner, v[key])
		}
		if s.PropertyNames != nil && !known && !c.isValid(s.PropertyNames, key) {
			c.add(inner, "%q can't be a key here: it must be %s", key, titleOr(c.resolveRef(s.PropertyNames), "of another form"))
		}
	}
}

func (c *checker) checkList(s *jsonschema.Schema, at string, v []any) {
	if s.MinItems != nil && len(v) < *s.MinItems {
		c.add(at, "has %d items, must have at least %d", len(v), *s.MinItems)
	}
	if s.MaxItems != nil && len(v) > *s.MaxItems {
		c.add(at, "has %d items, may have at most %d", len(v), *s.MaxItems)
	}
	for i, item := range v {
		inner := fmt.Sprintf("%s/%d", at, i)
		if s.Items != nil {
			c.walk(s.Items, inner, item)
		}
		if s.UniqueItems && slices.ContainsFunc(v[:i], func(e any) bool { return equalJSON(e, item) }) {
			c.add(inner, "%s is in the list twice", shortJSON(item))
		}
	}
}

func (c *checker) checkText(s *jsonschema.Schema, at, v string) {
	if s.MinLength != nil && utf8.RuneCountInString(v) < *s.MinLength {
		c.add(at, "must have at least %d characters", *s.MinLength)
	}
	if s.MaxLength != nil && utf8.RuneCountInString(v) > *s.MaxLength {
		c.add(at, "has %d characters, may have at most %d", utf8.RuneCountInString(v), *s.MaxLength)
	}
	switch {
	case s.Pattern == "" || c.pattern(s.Pattern).MatchString(v):
	case strings.TrimSpace(v) == "":
		c.add(at, "is blank")
	default:
		c.add(at, "%s must be %s", shortJSON(v), titleOr(s, "of the form "+s.Pattern))
	}
}

func (c *checker) checkNumber(s *jsonschema.Schema, at string, v json.Number) {
	f, err := v.Float64()
	if err != nil {
		c.add(at, "%s is too large", v)
		return
	}
	for _, bound := range []struct {
		limit *float64
		bad   func(limit float64) bool
		words string
	}{
		{s.Minimum, func(limit float64) bool { return f < limit }, "at least"},
		{s.Maximum, func(limit float64) bool { return f > limit }, "at most"},
		{s.ExclusiveMinimum, func(limit float64) bool { return f <= limit }, "more than"},
		{s.ExclusiveMaximum, func(limit float64) bool { return f >= limit }, "less than"},
	} {
		if bound.limit != nil && bound.bad(*bound.limit) {
			c.add(at, "must be %s %v, not %s", bound.words, *bound.limit, v)
		}
	}
}

// checkCompound checks the schemas that a schema is composed of.
func (c *checker) checkCompound(s *jsonschema.Schema, at string, v any) {
	for _, sub := range s.AllOf {
		c.walk(sub, at, v)
	}
	c.checkOneOf(append(slices.Clone(s.OneOf), s.AnyOf...), at, v)
	next := s.Else
	if s.If != nil && c.isValid(s.If, v) {
		next = s.Then
	}
	if s.If != nil && next != nil {
		c.walk(next, at, v)
	}
}

// checkOneOf reports violations of the branch that was probably meant: the first whose type the value has.
func (c *checker) checkOneOf(branches []*jsonschema.Schema, at string, v any) {
	var types []string
	var meant []*jsonschema.Schema
	for _, b := range branches {
		if c.isValid(b, v) {
			return
		}
		mine := typesOf(c.resolveRef(b))
		types = append(types, mine...)
		if len(mine) == 0 || slices.ContainsFunc(mine, func(t string) bool { return hasType(t, v) }) {
			meant = append(meant, b)
		}
	}
	switch {
	case len(branches) == 0:
	case len(meant) == 0:
		c.add(at, "must be %s, not %s", typesPhrase(types), valuePhrase(v))
	default:
		c.walk(meant[0], at, v)
	}
}

// isValid reports whether v satisfies s.
func (c *checker) isValid(s *jsonschema.Schema, v any) bool {
	inner := checker{rules: c.rules}
	inner.walk(s, "", v)
	return inner.err == nil && len(inner.found) == 0
}

// validateByLibrary asks the library, which supports every keyword, but takes numbers only as Go decodes them.
func (c *checker) validateByLibrary(doc json.RawMessage) {
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		c.add("", "%v", err)
		return
	}
	if err := c.resolved.Validate(v); err != nil {
		c.add("", "%s", reason(err))
	}
}

// reason returns the last part of the library's message, which repeats the path in its own format.
func reason(err error) string {
	parts := strings.Split(err.Error(), ": ")
	for i, p := range parts {
		if !strings.HasPrefix(p, "validating ") {
			return strings.Join(parts[i:], ": ")
		}
	}
	return err.Error()
}

// keyHint returns a remark with the known key nearest to an unknown one, or with all known keys.
func keyHint(key string, known []string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for _, k := range known {
		if plain(k) == plain(key) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	if k := trellis.Nearest(key, known); k != "" {
		return fmt.Sprintf("; did you mean %q?", k)
	}
	return fmt.Sprintf(" (known: %s)", strings.Join(known, ", "))
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func escape(key string) string { return pointerEscaper.Replace(key) }
