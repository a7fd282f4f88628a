package config

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"
)

// Value is one setting that is in force.
type Value struct {
	Key  string // as problems spell it: verify[1], agents.commands.mine
	Text string // as YAML may have it
	Line int    // 0 if the file does not set it
}

// Values returns all settings that the files of a project set or leave at their defaults, without
// the user's floors. A group with a key that people chose, such as an agent, and a notifier are one
// value each, as JSON, and so is a list. Each item of a list of texts is a value as well.
func Values(f Files) []Value {
	c, d := decodeProject(f)
	list := values(reflect.ValueOf(*c), "", "")
	for i, v := range list {
		if p, ok := d.places[v.Key]; ok {
			list[i].Line = p.line
		}
	}
	return list
}

func values(v reflect.Value, key string, tag reflect.StructTag) (list []Value) {
	switch {
	case v.Kind() == reflect.Struct && key != "" && tag.Get("doc") == "one":
		return []Value{{Key: key, Text: asJSON(v)}}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			list = append(list, values(v.Field(i), joinKey(key, f.Tag.Get("yaml")), f.Tag)...)
		}
	case v.Kind() == reflect.Map && tag.Get("doc") == "": // of structs
		for _, name := range slices.Sorted(maps.Keys(keysOf(v))) {
			list = append(list, values(v.MapIndex(keysOf(v)[name]), joinKey(key, name), `doc:"one"`)...)
		}
	case v.Kind() == reflect.Slice && v.IsNil() && tag.Get("unset") != "": // which differs from empty
		list = []Value{{Key: key, Text: tag.Get("unset")}}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		list = []Value{{Key: key, Text: asJSON(v)}}
		for i := range v.Len() {
			list = append(list, Value{Key: itemKey(key, i), Text: v.Index(i).String()})
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			list = append(list, values(v.Index(i), itemKey(key, i), `doc:"one"`)...)
		}
	case v.Kind() == reflect.Map:
		return []Value{{Key: key, Text: asJSON(v)}}
	default:
		list = []Value{{Key: key, Text: textOf(v)}}
	}
	return list
}

func keysOf(v reflect.Value) map[string]reflect.Value {
	keys := map[string]reflect.Value{}
	for _, k := range v.MapKeys() {
		keys[k.String()] = k
	}
	return keys
}

func textOf(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return duration(x)
	case string:
		return x
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	return asJSON(v)
}

func asJSON(v reflect.Value) string {
	raw, err := text.JSON(plainValue(v))
	if err != nil {
		return err.Error() // a number without JSON: it differs from every other value
	}
	return string(raw)
}

// plainValue returns a value by the keys of the file, without fields that are not set.
func plainValue(v reflect.Value) any {
	switch {
	case v.Kind() == reflect.Struct:
		said := map[string]any{}
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				said[v.Type().Field(i).Tag.Get("yaml")] = plainValue(f)
			}
		}
		return said
	case v.Kind() == reflect.Slice && v.Len() == 0:
		return []string{} // whether it is set or not
	}
	return v.Interface()
}
