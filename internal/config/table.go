package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Row is one key in the table of the docs.
type Row struct{ Key, Type, Default, Meaning string }

// Table returns every key that exists, in the order of the docs. <name> and [] stand for what a person fills in.
func Table() []Row {
	return rows(reflect.ValueOf(defaults()), "", "")
}

func rows(v reflect.Value, key string, tag reflect.StructTag) (list []Row) {
	switch t := v.Type(); {
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			list = append(list, rows(v.Field(i), joinKey(key, f.Tag.Get("yaml")), f.Tag)...)
		}
		return list
	case t.Kind() == reflect.Map && tag.Get("doc") == "":
		return rows(reflect.Zero(t.Elem()), joinKey(key, "<"+tag.Get("key")+">"), tag)
	case t.Kind() == reflect.Slice && tag.Get("doc") == "":
		return rows(reflect.Zero(t.Elem()), key+"[]", tag)
	}
	if tag.Get("unset") != "" { // which differs from empty
		return []Row{{key, typeOf(v.Type(), tag), "null", tag.Get("doc")}}
	}
	return []Row{{key, typeOf(v.Type(), tag), defaultOf(v), tag.Get("doc")}}
}

func typeOf(t reflect.Type, tag reflect.StructTag) string {
	switch {
	case tag.Get("oneof") != "":
		return strings.Join(strings.Fields(tag.Get("oneof")), ", ")
	case t.Kind() == reflect.Slice:
		return "list of texts"
	case t.Kind() == reflect.Map:
		return fmt.Sprintf("%s for each %s", kindOf(t.Elem()), tag.Get("key"))
	}
	return kindOf(t)
}

func defaultOf(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return duration(x)
	case []string:
		var b strings.Builder
		for i, s := range x {
			fmt.Fprintf(&b, "%s%q", map[bool]string{true: ", "}[i > 0], s)
		}
		return "[" + b.String() + "]"
	}
	switch v.Kind() {
	case reflect.Map:
		return "{}"
	case reflect.String:
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(v)
}

// duration formats d without parts that are 0.
func duration(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
