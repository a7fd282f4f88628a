package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Schema is the JSON Schema that an answer must satisfy: evaluate, taskspec, plan, prd, judge,
// accept, grade.
func Schema(name string) (json.RawMessage, error) {
	raw, err := files.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("%w: schema %q", ErrUnknown, name)
	}
	return raw, nil
}

// Native is the schema in the words that every provider's structured output takes: types, enums,
// properties, all of them required, no others allowed. What it leaves out, [Schema] still asks for.
// It is nil, without an error, for a schema that can't be said in these words: one that refers to itself, has an
// object with keys of any name, or a value of several shapes. Such an answer is asked for as text, like that of a
// program without structured output.
func Native(name string) (json.RawMessage, error) {
	raw, err := Schema(name)
	if err != nil {
		return nil, err
	}
	out, err := lower(raw)
	if errors.Is(err, errUnsayable) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading schema %s: %w", name, err)
	}
	return out, nil
}

type member struct {
	key   string
	value json.RawMessage
}

var errUnsayable = errors.New("not every provider can say this")

// lower keeps the order of the properties, since models fill them in one after the other.
func lower(schema json.RawMessage) (json.RawMessage, error) {
	list, err := members(schema)
	if err != nil {
		return nil, err
	}
	if !sayable(list) {
		return nil, errUnsayable
	}
	var kept []member
	for _, m := range list {
		switch m.key {
		case "type", "enum", "const", "description", "additionalProperties":
		case "items":
			m.value, err = lower(m.value)
		case "properties":
			var names json.RawMessage
			m.value, names, err = lowerAll(m.value)
			kept = append(kept, member{"required", names})
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		kept = append(kept, m)
	}
	return join(kept), nil
}

// sayable reports whether a schema says its type or values outright, and an object's keys.
func sayable(list []member) bool {
	said, object, closed := false, false, false
	for _, m := range list {
		switch m.key {
		case "type":
			said, object = true, string(m.value) == `"object"`
		case "enum", "const":
			said = true
		case "additionalProperties":
			closed = string(m.value) == "false"
		}
	}
	return said && object == closed
}

// lowerAll lowers each property and names them.
func lowerAll(properties json.RawMessage) (lowered, names json.RawMessage, err error) {
	list, err := members(properties)
	if err != nil {
		return nil, nil, err
	}
	keys := []string{}
	for i := range list {
		keys = append(keys, list[i].key)
		if list[i].value, err = lower(list[i].value); err != nil {
			return nil, nil, err
		}
	}
	names, err = json.Marshal(keys)
	return join(list), names, err
}

// members are an object's in the order in which they stand.
func members(object json.RawMessage) (list []member, err error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: fmt.Sprint(key)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func join(list []member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", m.key, bytes.TrimSpace(m.value))
	}
	b.WriteByte('}')
	return b.Bytes()
}
