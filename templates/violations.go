package templates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxProblems is how many problems are worth telling a model at once.
const maxProblems = 20

// Violations says where and why doc does not satisfy the schema, each as "<JSON pointer>: <reason>",
// nil when it does. The library stops at its first error, so each property is put to its own subschema.
func Violations(schema json.RawMessage, doc json.RawMessage) ([]string, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("reading schema: %w", err)
	}
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return []string{"/: " + err.Error()}, nil
	}
	c := checker{root: &s}
	c.walk(&s, "", v)
	if c.err == nil && len(c.found) == 0 { // rules across properties
		c.leaf(&s, "", v)
	}
	return c.found[:min(len(c.found), maxProblems)], c.err
}

type checker struct {
	root  *jsonschema.Schema
	found []string
	err   error
}

func (c *checker) add(at, format string, args ...any) {
	if at == "" {
		at = "/"
	}
	c.found = append(c.found, at+": "+fmt.Sprintf(format, args...))
}

func (c *checker) walk(s *jsonschema.Schema, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if s.Properties != nil {
			c.object(s, at, v)
			return
		}
	case []any:
		if s.Items != nil {
			c.list(s, at, v)
			return
		}
	}
	c.leaf(s, at, v)
}

func (c *checker) object(s *jsonschema.Schema, at string, v map[string]any) {
	if s.Type != "" && s.Type != "object" {
		c.add(at, "must be %s, not an object", s.Type)
		return
	}
	for _, key := range s.Required {
		if _, ok := v[key]; !ok {
			c.add(at+"/"+escape(key), "is missing")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if sub, ok := s.Properties[key]; ok {
			c.walk(sub, at+"/"+escape(key), v[key])
		} else if closed(s) {
			c.add(at+"/"+escape(key), "is not a known key (known: %s)", strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", "))
		}
	}
}

// closed reports whether the schema says additionalProperties: false, which the library reads as {not: {}}.
func closed(s *jsonschema.Schema) bool {
	raw, err := json.Marshal(s.AdditionalProperties)
	return err == nil && (bytes.Equal(raw, []byte("false")) || bytes.Equal(raw, []byte(`{"not":{}}`)))
}

func (c *checker) list(s *jsonschema.Schema, at string, v []any) {
	if s.MinItems != nil && len(v) < *s.MinItems {
		c.add(at, "has %d items, must have at least %d", len(v), *s.MinItems)
	}
	if s.MaxItems != nil && len(v) > *s.MaxItems {
		c.add(at, "has %d items, may have at most %d", len(v), *s.MaxItems)
	}
	for i, item := range v {
		c.walk(s.Items, fmt.Sprintf("%s/%d", at, i), item)
	}
}

func (c *checker) leaf(s *jsonschema.Schema, at string, v any) {
	own := *s
	own.Properties, own.Items = nil, nil
	if at == "" {
		own = *s
	}
	r, err := own.CloneSchemas().Resolve(nil)
	if err != nil {
		c.err = fmt.Errorf("resolving schema at %s: %w", at, err)
		return
	}
	if err := r.Validate(v); err != nil {
		c.add(at, "%s", reason(err))
	}
}

// reason is the last part of the library's message, which repeats the path in a form of its own.
func reason(err error) string {
	parts := strings.Split(err.Error(), ": ")
	for i, p := range parts {
		if !strings.HasPrefix(p, "validating ") {
			return strings.Join(parts[i:], ": ")
		}
	}
	return err.Error()
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

func escape(key string) string { return pointer.Replace(key) }
