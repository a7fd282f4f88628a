package taskdir

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/trellis-tasks/trellis/internal/text"
)

// shape is a task.json with nothing in it: all fields, in their order, each with the value that it has
// when nobody said anything. What is null here may be null.
const shape = `{
  "id": "", "name": "", "title": "", "description": "", "status": "planning", "dev_type": null, "scope": null,
  "package": null, "priority": "P2", "creator": "", "assignee": "", "createdAt": "", "completedAt": null,
  "branch": null, "base_branch": null, "worktree_path": null, "commit": null, "pr_url": null,
  "subtasks": [], "children": [], "parent": null, "relatedFiles": [], "notes": "", "meta": {},
  "pipeline": {
    "schema_version": 1, "revision": 0, "size": "", "agent": "", "verify": [], "depends_on": [], "touches": [],
    "protected": [], "not_before": null, "objective": {"name": "", "step": ""},
    "rejection": {"category": "", "details": "", "suggestions": []}, "judge": null,
    "approval": {"required": false, "approvers": 1}, "plan_hash": "", "base_commit": "", "stacked_on": "",
    "phase": "", "round": 0, "attempt": 0, "outcome": "",
    "failure": {"code": "", "detail": "", "retryable": false, "at": ""}, "resume_at": null,
    "usage": {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "cost_usd": null, "seconds": 0}
  }
}`

// schemaVersion is the highest pipeline.schema_version that is understood.
const schemaVersion = 1

// judgeShape stands for the one object that shape has no keys of.
const judgeShape = `{"pass": false, "feedback": ""}`

// shapeOf is the value of a field in shape; it does not exist for what is no field of task.json.
// Whatever is put below meta is its own business.
func shapeOf(path string) gjson.Result {
	for _, part := range strings.Split(path, ".") {
		if !plainKey(part) {
			return gjson.Result{}
		}
	}
	if key, ok := strings.CutPrefix(path, "pipeline.judge."); ok {
		return gjson.Get(judgeShape, key)
	}
	if strings.HasPrefix(path, "meta.") {
		return gjson.Parse("null")
	}
	return gjson.Get(shape, path)
}

// plainKey reports whether a key can stand in a path as it is.
func plainKey(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(c rune) bool { return !plainChar(c) })
}

func plainChar(c rune) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// keysOf are the keys of the object at path in shape, in order.
func keysOf(path string) []string {
	object := gjson.Parse(shape)
	if path != "" {
		object = shapeOf(path)
	}
	var keys []string
	object.ForEach(func(key, _ gjson.Result) bool {
		keys = append(keys, key.Str)
		return true
	})
	return keys
}

// encodeFor is value as JSON for a field: "" and a zero time are null where null is allowed, a nil
// list is an empty one.
func encodeFor(path string, value any) ([]byte, error) {
	blank := shapeOf(path)
	if !blank.Exists() {
		return nil, fmt.Errorf("task.json has no field %q", path)
	}
	nullable := blank.Type == gjson.Null
	switch v := value.(type) {
	case time.Time:
		if v.IsZero() {
			return []byte(blank.Raw), nil
		}
		value = stamp(v)
	case []string:
		if v == nil {
			return []byte("[]"), nil
		}
	}
	raw, err := text.JSON(value)
	if err != nil || nullable && string(raw) == `""` {
		return []byte("null"), err
	}
	if got := gjson.ParseBytes(raw); !nullable && kind(got) != kind(blank) {
		return nil, fmt.Errorf("%s given where %s belongs", kind(got), kind(blank))
	}
	return raw, nil
}
