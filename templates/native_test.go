package templates_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each schema that every provider supports has its file in schemas/native; TRELLIS_UPDATE_PROMPTS=1 writes them.
func TestNativeSchemasFollowTheirs(t *testing.T) {
	all, err := filepath.Glob("schemas/*.json")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	said := 0
	for _, source := range all {
		name := strings.TrimSuffix(filepath.Base(source), ".json")
		raw, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		want, err := lower(raw)
		if err == nil {
			said++
			want = append(want, '\n')
		} else if !errors.Is(err, errUnsayable) {
			t.Fatal(name, err)
		}
		file := filepath.Join("schemas", "native", name+".json")
		if os.Getenv("TRELLIS_UPDATE_PROMPTS") != "" && want != nil {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if !bytes.Equal(got, want) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is not what %s says in the words of every provider: TRELLIS_UPDATE_PROMPTS=1 go test ./templates\ngot  %s\nwant %s (%v)", file, source, got, want, err)
		}
		if got := native(t, name); string(got) != strings.TrimSpace(string(want)) {
			t.Errorf("%s: the program has %s, want %s", name, got, want)
		}
	}
	if kept, err := filepath.Glob("schemas/native/*"); err != nil || len(kept) != said {
		t.Errorf("schemas/native has %d files for %d schemas (%v)", len(kept), said, err)
	}
}

type member struct {
	key   string
	value json.RawMessage
}

var errUnsayable = errors.New("not every provider can say this")

// lower reduces a schema to what every provider supports. Properties keep their order, as models fill them in one after the other.
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

// sayable reports whether a schema states its type or its values, and allows no other keys exactly if it is an object.
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

// lowerAll applies lower to each property, and returns the names of all.
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

// members returns the members of an object in their order.
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
