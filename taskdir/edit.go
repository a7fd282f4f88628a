package taskdir

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edit collects changes to the text of one task.json. The first change that can't be made is what
// Update returns; those after it do nothing.
type Edit struct {
	task  *Task
	doc   string // without a byte order mark
	style style

	err      error
	changed  bool
	keep     bool // leave the revision
	revision bool // the revision was set
}

// KeepRevision makes this update leave pipeline.revision as it is: an edit on a person's behalf, which
// a run must not take for its own.
func (e *Edit) KeepRevision() { e.keep = true }

// Set gives a field a value: "status", "pipeline.phase", "pipeline.failure.code". The bytes of
// that value change and no others; a field that is missing is put at its place in the order. Text that is
// "" and a time that is zero become null where the format allows null, a nil []string becomes []. An object is
// merged into the one that is there, so that keys nobody knows stay. A value that is there already
// changes nothing. A status must be one that the task may go to (*trellis.MoveError).
func (e *Edit) Set(field string, value any) {
	if e.err != nil {
		return
	}
	raw, err := encodeFor(field, value)
	if err == nil && field == "status" {
		err = e.move(raw)
	}
	if err == nil {
		err = e.set(field, raw)
	}
	if err != nil {
		e.err = fmt.Errorf("setting %s: %w", field, err)
		return
	}
	e.revision = e.revision || field == "pipeline.revision"
}

// move checks a change of status.
func (e *Edit) move(raw []byte) error {
	to, err := trellis.ParseStatus(gjson.ParseBytes(raw).Str)
	if err != nil {
		return err
	}
	from, err := trellis.ParseStatus(string(e.task.Status))
	if err != nil {
		return err
	}
	if to == trellis.Completed && len(e.task.Children) > 0 && from != trellis.Cancelled {
		return nil // a task with children is completed by the last of them
	}
	return trellis.Move(from, to)
}

// set writes the JSON text raw to a path whose keys are all plain.
func (e *Edit) set(path string, raw []byte) error {
	old := gjson.Get(e.doc, path)
	if !old.Exists() {
		return e.add(path, raw)
	}
	if value := gjson.ParseBytes(raw); old.IsObject() && value.IsObject() {
		return e.merge(path, value)
	}
	if sameValue(old.Raw, string(raw)) {
		return nil
	}
	return e.replace(path, string(relaid(e.doc, old, raw, e.style)))
}

// merge sets the members of value one by one.
func (e *Edit) merge(path string, value gjson.Result) (err error) {
	value.ForEach(func(key, v gjson.Result) bool {
		if !plainKey(key.Str) {
			err = fmt.Errorf("the key %q can't stand in a path", key.Str)
		} else {
			err = e.set(path+"."+key.Str, []byte(v.Raw))
		}
		return err == nil
	})
	return err
}

// add puts a field that is missing into the object that it belongs to, which is made when it is missing too.
func (e *Edit) add(path string, raw []byte) error {
	parent, key := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, key = path[:i], path[i+1:]
	}
	if parent == "" {
		e.doc, e.changed = insert(e.doc, key, raw, keysOf(""), "", e.style), true
		return nil
	}
	holder := gjson.Get(e.doc, parent)
	switch {
	case holder.IsObject():
		text := insert(holder.Raw, key, raw, keysOf(parent), lineTo(e.doc, holder.Index), e.style)
		return e.replace(parent, text)
	case !holder.Exists() || holder.Type == gjson.Null:
		return e.set(parent, newObject(parent, key, raw))
	}
	return fmt.Errorf("%q is %s, it must be an object", parent, kind(holder))
}

// newObject is an object with one member; a pipeline says which version it has.
func newObject(path, key string, raw []byte) []byte {
	text := fmt.Sprintf(`{%q:%s}`, key, raw)
	if path == "pipeline" && key != "schema_version" {
		text = fmt.Sprintf(`{"schema_version":%d,%q:%s}`, schemaVersion, key, raw)
	}
	return []byte(text)
}

// replace puts text in the place of the value at path, which is there.
func (e *Edit) replace(path, text string) error {
	doc, err := sjson.SetRaw(e.doc, path, text)
	if err != nil {
		return err
	}
	e.doc, e.changed = doc, true
	return nil
}
