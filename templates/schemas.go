package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
// program without structured output. TestNativeSchemasFollowTheirs makes the files.
func Native(name string) (json.RawMessage, error) {
	if _, err := Schema(name); err != nil {
		return nil, err
	}
	raw, err := files.ReadFile("schemas/native/" + name + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return bytes.TrimSpace(raw), err
}
