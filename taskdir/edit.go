package taskdir

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edit collects changes to the text of one task.json. The error of the first change that fails is returned by Update; later
// changes do nothing.
type Edit struct {
	task  *Task
	doc   string // without a byte order mark
	style style

	err          error
	changed      bool
	keepRevision bool // leave the revision unchanged
	revisionSet  bool // the revision was set
}

// KeepRevision makes this update leave pipeline.revision unchanged: it is an edit on a person's behalf, which a run must not
// take for its own.
func (e *Edit) KeepRevision() { e.keepRevision = true }

// Set sets a field, such as "status", "pipeline.phase" or "pipeline.failure.code". Only the bytes of its value change; a
// missing field is inserted at its place in the order. An empty string and a zero time become null where the format allows
// null, a nil []string becomes []. An object is merged into the existing one, so that unknown keys are kept. A value that is
// already set changes nothing. A status must be one that the task may change to (*trellis.MoveError).
func (e *Edit) Set(field string, value any) {
	if e.err != nil {
		return
	}
	raw, err := encodeFor(field, value)
	if err == nil && field == "status" {
		err = e.checkMove(raw)
	}
	if err == nil {
		err = e.set(field, raw)
	}
	if err != nil {
		e.err = fmt.Errorf("setting %s: %w", field, err)
		return
	}
	e.revisionSet = e.revisionSet || field == "pipeline.revision"
}

// checkMove checks a change of status.
func (e *Edit) checkMove(raw []byte) error {
	to, err := trellis.ParseStatus(gjson.ParseBytes(raw).Str)
	if err != nil {
		return err
	}
	from, err := trellis.ParseStatus(string(e.task.Status))
	if err != nil {
		return err
	}
	if to == trellis.Completed && len(e.task.Children) > 0 && from != trellis.Cancelled {
		return nil // a task with children is completed by its last child
	}
	return trellis.Move(from, to)
}

// set writes the JSON text raw to a path whose keys are all plain.
func (e *Edit) set(path string, raw []byte) error {
	old := gjson.Get(e.doc, path)
	if !old.Exists() {
		return e.addField(path, raw)
	}
	if value := gjson.ParseBytes(raw); old.IsObject() && value.IsObject() {
		return e.merge(path, value)
	}
	if sameValue(old.Raw, string(raw)) {
		return nil
	}
	return e.replace(path, string(formatLike(e.doc, old, raw, e.style)))
}

// merge sets the members of value one by one.
func (e *Edit) merge(path string, value gjson.Result) (err error) {
	value.ForEach(func(key, v gjson.Result) bool {
		if !plainKey(key.Str) {
			err = fmt.Errorf("the key %q can't be in a path", key.Str)
		} else {
			err = e.set(path+"."+key.Str, []byte(v.Raw))
		}
		return err == nil
	})
	return err
}

// addField inserts a missing field into its object, which is created if it is missing too.
func (e *Edit) addField(path string, raw []byte) error {
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
		text := insert(holder.Raw, key, raw, keysOf(parent), lineBefore(e.doc, holder.Index), e.style)
		return e.replace(parent, text)
	case !holder.Exists() || holder.Type == gjson.Null:
		return e.set(parent, newObject(parent, key, raw))
	}
	return fmt.Errorf("%q is %s, it must be an object", parent, kind(holder))
}

// newObject returns an object with one member; pipeline also gets its schema_version.
func newObject(path, key string, raw []byte) []byte {
	text := fmt.Sprintf(`{%q:%s}`, key, raw)
	if path == "pipeline" && key != "schema_version" {
		text = fmt.Sprintf(`{"schema_version":%d,%q:%s}`, schemaVersion, key, raw)
	}
	return []byte(text)
}

// replace replaces the existing value at path by text.
func (e *Edit) replace(path, text string) error {
	doc, err := sjson.SetRaw(e.doc, path, text)
	if err != nil {
		return err
	}
	e.doc, e.changed = doc, true
	return nil
}
