package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tailscale/hujson"
)

// object is a file of JSON, with comments or without, that has servers in an object of its own.
type object struct {
	group string // name of that object
	value func(command []string) any
}

func (o object) entry(command []string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(o.value(command)); err != nil {
		panic(err) // strings
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

func (o object) read(file []byte) (string, error) {
	if file == nil {
		return "", nil
	}
	_, group, err := o.parse(file)
	if err != nil || group == nil {
		return "", err
	}
	v := group.Find("/" + server)
	if v == nil {
		return "", nil
	}
	return string(file[v.StartOffset:v.EndOffset]), nil
}

// parse is a file's outermost object, and that of the servers, nil when there is none.
func (o object) parse(file []byte) (all hujson.Value, group *hujson.Value, err error) {
	if all, err = hujson.Parse(file); err != nil {
		return all, nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, is := all.Value.(*hujson.Object); !is {
		return all, nil, errors.New("it is no JSON object")
	}
	if group = all.Find("/" + o.group); group == nil {
		return all, nil, nil
	}
	if _, is := group.Value.(*hujson.Object); !is {
		return all, nil, fmt.Errorf("%s in it is no object", o.group)
	}
	return all, group, nil
}

// What add writes: the group with the entry, and the entry in a group that is there. Each stands in a line of its own, right behind the
// brace that opens what it is in, so that no other byte changes.
func (o object) grouped(entry string) string {
	return fmt.Sprintf("\n  %q: {%q: %s}", o.group, server, entry)
}
func (o object) alone(entry string) string { return fmt.Sprintf("\n    %q: %s", server, entry) }

// made is a file that add makes.
func (o object) made(entry string) string { return "{" + o.grouped(entry) + "\n}\n" }

func (o object) add(file []byte, entry string) ([]byte, error) {
	if file == nil {
		return []byte(o.made(entry)), nil
	}
	all, group, err := o.parse(file)
	if err != nil {
		return nil, err
	}
	in, text := &all, o.grouped(entry)
	if group != nil {
		in, text = group, o.alone(entry)
	}
	if len(in.Value.(*hujson.Object).Members) > 0 {
		text += ","
	}
	return insert(file, in.StartOffset+1, text), nil
}

func (o object) remove(file []byte, entry string) ([]byte, error) {
	all, group, err := o.parse(file)
	if err != nil || group == nil {
		return file, err
	}
	if string(file) == o.made(entry) {
		return nil, nil
	}
	for _, comma := range []string{",", ""} {
		if now, done := cut(file, all.StartOffset+1, o.grouped(entry)+comma); done {
			return now, nil
		}
		if now, done := cut(file, group.StartOffset+1, o.alone(entry)+comma); done {
			return now, nil
		}
	}
	if err := all.Patch(fmt.Appendf(nil, `[{"op": "remove", "path": "/%s/%s"}]`, o.group, server)); err != nil { // the program wrote the file anew
		return nil, fmt.Errorf("taking %s out: %w", server, err)
	}
	return all.Pack(), nil
}
