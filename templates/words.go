package templates

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// typePhrase returns a JSON type as it is called in a sentence.
func typePhrase(typ string) string {
	called := map[string]string{"integer": "a whole number", "boolean": "true or false", "array": "a list", "object": "an object", "null": "null"}
	return cmp.Or(called[typ], "a "+typ)
}

func typesOf(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

// hasType reports whether a value has a JSON type. An integer must have neither point nor exponent, since its readers accept none.
func hasType(typ string, v any) bool {
	switch v := v.(type) {
	case nil:
		return typ == "null"
	case bool:
		return typ == "boolean"
	case string:
		return typ == "string"
	case json.Number:
		_, err := strconv.ParseInt(v.String(), 10, 64)
		return typ == "number" || typ == "integer" && err == nil
	case []any:
		return typ == "array"
	case map[string]any:
		return typ == "object"
	}
	return false
}

// typesPhrase returns a phrase such as "a string or null".
func typesPhrase(types []string) string {
	var list []string
	for _, t := range slices.Compact(slices.Clone(types)) {
		list = append(list, typePhrase(t))
	}
	if n := len(list) - 1; n > 0 {
		return strings.Join(list[:n], ", ") + " or " + list[n]
	}
	return strings.Join(list, "")
}

// valuePhrase returns a value as it is called in a sentence.
func valuePhrase(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "an object"
}

// shortJSON returns a value as JSON, shortened.
func shortJSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return fmt.Sprint(v)
	}
	const most = 60
	if r := []rune(strings.TrimSpace(b.String())); len(r) > most {
		return string(r[:most]) + "…"
	}
	return strings.TrimSpace(b.String())
}

// valueList formats values for a sentence: non-empty strings without quotes.
func valueList(values []any) string {
	var list []string
	for _, v := range values {
		if s, ok := v.(string); ok && s != "" {
			list = append(list, s)
		} else {
			list = append(list, shortJSON(v))
		}
	}
	return strings.Join(list, ", ")
}

// equalJSON reports whether two values are equal in JSON. Numbers in a schema are floats.
func equalJSON(a, b any) bool {
	x, isX := asNumber(a)
	y, isY := asNumber(b)
	if isX && isY {
		return x == y
	}
	return isX == isY && canonical(a) == canonical(b)
}

func asNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// canonical returns a value as JSON with sorted keys.
func canonical(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// titleOr returns the title of a schema, or else otherwise.
func titleOr(s *jsonschema.Schema, otherwise string) string {
	return cmp.Or(s.Title, otherwise)
}

// isFalseSchema reports whether a schema is false, which the library parses as {not: {}}.
func isFalseSchema(s *jsonschema.Schema) bool {
	raw, err := json.Marshal(s)
	return err == nil && (bytes.Equal(raw, []byte("false")) || bytes.Equal(raw, []byte(`{"not":{}}`)))
}
