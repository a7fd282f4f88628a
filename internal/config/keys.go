package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ErrByHand is the error for a name that leads to what no command sets.
var ErrByHand = errors.New("a list of groups of settings, which is written by hand")

// Key is a setting that a file may have, by the name that people use for it.
type Key struct {
	Name string   // limits.parallel
	Path []string // the keys that lead to it
	Kind string   // its type in the table of the docs
	List bool     // a list of texts

	typ  reflect.Type
	tag  reflect.StructTag
	near string // for an unknown name: a similar one
}

// Scope says whose settings a key belongs to: those of a project, in its repository, or those of a user, for all projects.
type Scope int

// The scopes of keys.
const (
	ScopeProject Scope = iota
	ScopeUser
)

func (o Scope) fileType() reflect.Type {
	if o == ScopeUser {
		return reflect.TypeFor[User]()
	}
	return reflect.TypeFor[Config]()
}

// rows returns the table of the keys.
func (o Scope) rows() []Row {
	if o == ScopeUser {
		return UserTable()
	}
	return Table()
}

// Key finds a setting by its name. The error for an unknown name has the one that may have been meant.
func (o Scope) Key(name string) (Key, error) {
	k, ok := resolveKey(o.fileType(), "", name)
	k.Name = name
	switch {
	case !ok:
		return k, o.unknownError(name, k.near)
	case k.typ.Kind() == reflect.Struct || k.typ.Kind() == reflect.Map:
		return k, fmt.Errorf("%s is a group of settings%s", name, o.firstSettings(name))
	case k.typ.Kind() == reflect.Slice && k.typ.Elem().Kind() != reflect.String:
		return k, fmt.Errorf("%s is %w", name, ErrByHand)
	}
	k.Kind, k.List = typeOf(k.typ, k.tag), k.typ.Kind() == reflect.Slice
	return k, nil
}

// Group finds a setting, or a group of them, by its name.
func (o Scope) Group(name string) (Key, error) {
	k, ok := resolveKey(o.fileType(), "", name)
	k.Name = name
	if !ok {
		return k, o.unknownError(name, k.near)
	}
	return k, nil
}

// resolveKey follows a name through the type of a file. Names that people choose themselves, as
// keys of maps, may have dots: it takes the longest one that leads on.
func resolveKey(t reflect.Type, tag reflect.StructTag, name string) (Key, bool) {
	switch {
	case name == "":
		return Key{typ: t, tag: tag}, true
	case t.Kind() == reflect.Struct:
		return resolveField(t, name)
	case t.Kind() != reflect.Map:
		return Key{}, false
	case t.Elem().Kind() != reflect.Struct:
		return resolveBelow(name, t.Elem(), tag, "")
	}
	near := ""
	for end := strings.LastIndexByte(name, '.'); end > 0; end = strings.LastIndexByte(name[:end], '.') {
		k, ok := resolveBelow(name[:end], t.Elem(), tag, name[end+1:])
		if ok {
			return k, true
		}
		near = cmp.Or(near, k.near)
	}
	if near != "" {
		return Key{near: near}, false
	}
	return resolveBelow(name, t.Elem(), tag, "")
}

func resolveField(t reflect.Type, name string) (Key, bool) {
	first, rest, more := strings.Cut(name, ".")
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("yaml") == first && (rest != "" || !more) {
			return resolveBelow(first, f.Type, f.Tag, rest)
		}
		names = append(names, f.Tag.Get("yaml"))
	}
	near := trellis.Nearest(first, names)
	if near != "" && rest != "" {
		near += "." + rest
	}
	return Key{near: near}, false
}

func resolveBelow(name string, t reflect.Type, tag reflect.StructTag, rest string) (Key, bool) {
	k, ok := resolveKey(t, tag, rest)
	k.Path = append([]string{name}, k.Path...)
	if k.near != "" {
		k.near = name + "." + k.near
	}
	return k, ok
}

// unknownError returns the error for a name that is not a setting, with the one that may be meant. Items of lists have no name.
func (o Scope) unknownError(name, near string) error {
	if list := o.groupList(name); list != "" {
		return fmt.Errorf("%s is not a setting: %s is %w", name, list, ErrByHand)
	}
	meant := o.nearestKey(name, near)
	switch list := o.groupList(meant); {
	case list != "":
		return fmt.Errorf("%s is not a setting (did you mean %s? %s is %w)", name, meant, list, ErrByHand)
	case meant != "":
		return fmt.Errorf("%s is not a setting (did you mean %s?)", name, meant)
	}
	return fmt.Errorf("%s is not a setting", name)
}

// groupList returns the list of groups that a name leads into, "" if there is none.
func (o Scope) groupList(name string) string {
	for _, r := range o.rows() {
		list, _, listed := strings.Cut(r.Key, "[]")
		if rest, within := strings.CutPrefix(name, list); listed && within && strings.IndexAny(rest, ".[") == 0 {
			return list
		}
	}
	return ""
}

// nearestKey returns the key that may have been meant by a name: one that ends with it, or a similar one.
func (o Scope) nearestKey(name, near string) string {
	var known []string
	for _, r := range o.rows() {
		if strings.HasSuffix(r.Key, "."+name) {
			return r.Key
		}
		known = append(known, r.Key)
	}
	return cmp.Or(near, trellis.Nearest(name, known))
}

// firstSettings returns the first settings of a group.
func (o Scope) firstSettings(name string) string {
	var keys []string
	for _, r := range o.rows() {
		if strings.HasPrefix(r.Key, name+".") {
			keys = append(keys, r.Key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	if len(keys) > 3 {
		keys = append(keys[:3], "…")
	}
	return ": " + strings.Join(keys, ", ")
}

// Values returns the words that a setting can have, nil if it can have others too.
func (k Key) Values() []string {
	if k.typ != nil && k.typ.Kind() == reflect.Bool {
		return []string{"true", "false"}
	}
	return strings.Fields(k.tag.Get("oneof"))
}

// Zero returns the value of a key of something that the settings don't have, such as an agent that they don't name.
func (k Key) Zero() any { return valueOf(reflect.Zero(k.typ), k.tag) }

// IsText reports whether a value of the key is a text, whatever it looks like.
func (k Key) IsText() bool { return k.typ.Kind() == reflect.String }

// Source says where a value comes from.
type Source string

// Where values come from.
const (
	FromDefault Source = "default"
	FromProject Source = "project"
	FromUser    Source = "user"
)

// Setting is a setting with the value that is in force.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // null: no value is set that can be used, which differs from an empty one
	Source Source `json:"source"`
	File   string `json:"file"` // the file that sets it; "" for a default
	Line   int    `json:"line"`

	Wrong *trellis.Problem `json:"-"` // why the value in the file can't be used; nil: it can
}

// Text returns the value as a person writes it, lists with a line for each item.
func (s Setting) Text() string {
	switch v := s.Value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []string:
		return strings.Join(v, "\n")
	}
	return fmt.Sprint(s.Value)
}

// Settings returns all settings of a project in the order of the docs, with those whose keys people chose.
func Settings(f Files) []Setting {
	c, d := decodeProject(f)
	list := settings(reflect.ValueOf(*c), "", "")
	own := decode(f.User, &User{}, []string{})
	user, _ := LoadUser(f.User)
	user.ApplyFloors(c)
	raised := map[string]Setting{}
	for _, s := range settings(reflect.ValueOf(*c), "", "") {
		raised[s.Key] = s
	}
	var all []Setting
	for _, s := range list {
		now, there := raised[s.Key]
		delete(raised, s.Key)
		if there && !reflect.DeepEqual(now.Value, s.Value) {
			all = append(all, own.withSource(now, userKey(s.Key), FromUser))
			continue
		}
		all = append(all, d.withSource(s, s.Key, FromProject))
	}
	for _, key := range slices.Sorted(maps.Keys(raised)) { // limits of agents that only the user names
		all = append(all, own.withSource(raised[key], userKey(key), FromUser))
	}
	return all
}

// userKey returns the name that the floor of a setting has in the user's file.
func userKey(key string) string {
	if key == "planning.approval" {
		return "approval"
	}
	return key
}

// UserSettings returns all settings of the user's file.
func UserSettings(f File) (all []Setting) {
	u := User{}
	d := decode(f, &u, []string{})
	for _, s := range settings(reflect.ValueOf(u), "", "") {
		all = append(all, d.withSource(s, s.Key, FromUser))
	}
	return all
}

// withSource adds to a setting which line of a file sets it.
func (d *decoder) withSource(s Setting, key string, by Source) Setting {
	s.Source = FromDefault
	if p, ok := d.places[key]; ok && !p.null {
		s.Source, s.File, s.Line, s.Wrong = by, cmp.Or(p.file, d.file), p.line, p.mistake
	}
	if s.Wrong != nil {
		s.Value = nil
	}
	return s
}

// settings returns the leaves of a value.
func settings(v reflect.Value, key string, tag reflect.StructTag) (list []Setting) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			list = append(list, settings(v.Field(i), joinKey(key, f.Tag.Get("yaml")), f.Tag)...)
		}
		return list
	case reflect.Map:
		keys := keysOf(v)
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			list = append(list, settings(v.MapIndex(keys[name]), joinKey(key, name), tag)...)
		}
		return list
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.String {
			for i := range v.Len() {
				list = append(list, settings(v.Index(i), itemKey(key, i), "")...)
			}
			return list
		}
	}
	return []Setting{{Key: key, Value: valueOf(v, tag)}}
}

func valueOf(v reflect.Value, tag reflect.StructTag) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return duration(x)
	case []string:
		if x == nil && tag.Get("unset") != "" {
			return nil
		}
		return append([]string{}, x...)
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	return v.Interface()
}

// Inline returns the value on one line, as YAML may have it.
func (s Setting) Inline() string {
	switch v := s.Value.(type) {
	case nil:
		return "null"
	case string:
		if v == "" || strings.ContainsAny(v, "\n\t") {
			return strconv.Quote(v)
		}
		return v
	case []string:
		raw, err := text.JSON(v)
		if err != nil { // texts always can be written
			return err.Error()
		}
		return string(raw)
	}
	return fmt.Sprint(s.Value)
}
