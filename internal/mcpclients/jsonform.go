package mcpclients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonForm is JSON, possibly with comments, with the servers as members of an object in the top-level object.
type jsonForm struct {
	servers string // key of the object with the servers
	schema  string // the schema to name in a new file; "": none
	entry   func(command []string) any
}

func (f jsonForm) add(old []byte, command []string) (now []byte, added string, there bool, err error) {
	if len(bytes.TrimSpace(old)) == 0 {
		added, err = f.newFile(command)
		return append([]byte(added), old...), added, false, err
	}
	root, err := parseJSON(old)
	if err != nil {
		return nil, "", false, err
	}
	into, name, value := root, f.servers, any(map[string]any{serverName: f.entry(command)})
	in := layoutOf(old, root, "")
	if at := findMember(root, f.servers); at != nil {
		servers, is := at.Value.Value.(*hujson.Object)
		if !is {
			return nil, "", false, fmt.Errorf("%s is not an object in it", f.servers)
		}
		if findMember(object{servers, at.Value}, serverName) != nil {
			return old, "", true, nil
		}
		into, name, value = object{servers, at.Value}, serverName, f.entry(command)
		in = layoutOf(old, into, in.inner)
	}
	place, added, err := in.newMember(old, into, name, value)
	if err != nil {
		return nil, "", false, err
	}
	now = bytes.Join([][]byte{old[:place], []byte(added), old[place:]}, nil)
	return now, added, false, checkUnchanged(f, now, old)
}

// newFile returns a file that contains only the server.
func (f jsonForm) newFile(command []string) (string, error) {
	servers := map[string]any{serverName: f.entry(command)}
	var doc any = map[string]any{f.servers: servers}
	if f.schema != "" {
		doc = map[string]any{"$schema": f.schema, f.servers: servers}
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	return string(text) + "\n", err
}

// remove removes the member and its comma.
func (f jsonForm) remove(old []byte) (now []byte, there bool, err error) {
	if len(bytes.TrimSpace(old)) == 0 {
		return old, false, nil
	}
	root, err := parseJSON(old)
	if err != nil {
		return nil, false, err
	}
	at := findMember(root, f.servers)
	if at == nil {
		return old, false, nil
	}
	servers, is := at.Value.Value.(*hujson.Object)
	if !is {
		return old, false, nil
	}
	for i := range servers.Members {
		m := &servers.Members[i]
		if nameOf(m) != serverName {
			continue
		}
		from := len(bytes.TrimRight(old[:m.Name.StartOffset], " \t"))
		from = len(bytes.TrimSuffix(bytes.TrimSuffix(old[:from], []byte("\n")), []byte("\r")))
		to := m.Value.EndOffset
		if after := to + len(m.Value.AfterExtra); after < len(old) && old[after] == ',' {
			now = bytes.Join([][]byte{old[:from], old[to:after], old[after+1:]}, nil)
		} else if i > 0 { // the last member: remove the comma before it
			before := &servers.Members[i-1].Value
			comma := before.EndOffset + len(before.AfterExtra)
			now = bytes.Join([][]byte{old[:comma], old[comma+1 : max(from, comma+1)], old[to:]}, nil)
		} else {
			now = bytes.Join([][]byte{old[:from], old[to:]}, nil)
		}
		return now, true, checkUnchanged(f, old, now)
	}
	return old, false, nil
}

func (f jsonForm) key() string { return f.servers }

func (jsonForm) decode(data []byte) (doc map[string]any, err error) {
	doc = map[string]any{}
	if len(bytes.TrimSpace(data)) == 0 {
		return doc, nil
	}
	v, err := hujson.Parse(bytes.Clone(data)) // Standardize modifies the data
	if err != nil {
		return nil, err
	}
	v.Standardize()
	d := json.NewDecoder(bytes.NewReader(v.Pack()))
	d.UseNumber()
	return doc, d.Decode(&doc)
}

// object is an object with its position in the text.
type object struct {
	*hujson.Object
	value hujson.Value
}

func parseJSON(data []byte) (object, error) {
	v, err := hujson.Parse(data)
	if err != nil {
		return object{}, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	o, is := v.Value.(*hujson.Object)
	if !is {
		return object{}, errors.New("it is not a JSON object")
	}
	return object{o, v}, nil
}

// findMember returns the last member of that name, which takes precedence.
func findMember(o object, name string) (found *hujson.ObjectMember) {
	for i := range o.Members {
		if nameOf(&o.Members[i]) == name {
			found = &o.Members[i]
		}
	}
	return found
}

func nameOf(m *hujson.ObjectMember) string {
	name, is := m.Name.Value.(hujson.Literal)
	if !is {
		return ""
	}
	return name.String()
}

// layout is how the members of an object are formatted.
type layout struct {
	multiline    bool   // each member on a separate line
	newline      string // line ending
	inner, outer string // indentation of members, and of the closing brace
	unit         string // the difference between the two
}

// layoutOf returns the formatting of an object, derived from text if it is empty. outer is its closing brace's indentation.
func layoutOf(text []byte, o object, outer string) layout {
	l := layout{multiline: true, newline: "\n", outer: outer, unit: "  "}
	if bytes.Contains(text, []byte("\r\n")) {
		l.newline = "\r\n"
	}
	if strings.HasPrefix(outer, "\t") {
		l.unit = "\t"
	}
	l.inner = outer + l.unit
	if len(o.Members) == 0 {
		return l
	}
	before := string(text[o.value.StartOffset+1 : o.Members[0].Name.StartOffset])
	i := strings.LastIndexByte(before, '\n')
	if l.multiline = i >= 0; l.multiline {
		l.inner = before[i+1:]
		l.unit = strings.TrimPrefix(l.inner, outer)
	}
	if strings.Trim(l.inner, " \t") != "" || l.unit == "" { // a comment precedes the member, or it is not indented
		l.inner, l.unit = outer+"  ", "  "
	}
	return l
}

// newMember returns a new first member for an object, and where to insert it: after the brace and any comment on the brace's line.
func (l layout) newMember(text []byte, o object, name string, value any) (place int, added string, err error) {
	place = o.value.StartOffset + 1
	key, err := json.Marshal(name)
	if err != nil {
		return 0, "", err
	}
	if !l.multiline {
		doc, err := json.Marshal(value)
		return place, string(key) + ": " + string(doc) + ", ", err
	}
	doc, err := json.MarshalIndent(value, l.inner, l.unit)
	added = strings.ReplaceAll("\n"+l.inner+string(key)+": "+string(doc), "\n", l.newline)
	line, _, more := bytes.Cut(text[place:o.value.EndOffset-1], []byte("\n"))
	if more && !bytes.Contains(line, []byte("/*")) { // the rest of the line is a line comment or empty
		place += len(bytes.TrimRight(line, "\r"))
	}
	switch {
	case len(o.Members) > 0:
		added += ","
	case !more:
		added += l.newline + l.outer
	}
	return place, added, err
}
