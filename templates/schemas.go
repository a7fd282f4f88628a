package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// Schema returns the JSON Schema that an answer must satisfy: evaluate, taskspec, plan, prd, judge, accept, grade.
func Schema(name string) (json.RawMessage, error) {
	raw, err := files.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("%w: schema %q", ErrUnknown, name)
	}
	return raw, nil
}

// StructuredOutputSchema returns the schema with only the keywords that every provider's structured output supports: types, enums, properties,
// all of them required, no others allowed. [Schema] still demands what this leaves out. It returns nil, without an error, for
// a schema that can't be expressed in this way: one that refers to itself, has an object with arbitrary keys, or a value of
// several shapes. Such an answer is requested as text, as from a program without structured output.
// TestNativeSchemasFollowTheirs makes the files.
func StructuredOutputSchema(name string) (json.RawMessage, error) {
	if _, err := Schema(name); err != nil {
		return nil, err
	}
	raw, err := files.ReadFile("schemas/native/" + name + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return bytes.TrimSpace(raw), err
}
