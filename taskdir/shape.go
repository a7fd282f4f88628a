package taskdir

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/trellis-tasks/trellis/internal/text"
)

// shape is an empty task.json: all fields, in their order, each with its default value. A field that is null here may be null.
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

// schemaVersion is the highest supported pipeline.schema_version.
const schemaVersion = 1

// judgeShape is the shape of pipeline.judge, the one object whose keys shape doesn't list.
const judgeShape = `{"pass": false, "feedback": ""}`

// shapeOf returns the value of a field in shape, which does not exist if path is not a field of task.json. Any field may be put
// below meta.
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

// plainKey reports whether a key can be used in a path without escaping.
func plainKey(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(c rune) bool { return !plainChar(c) })
}

func plainChar(c rune) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// keysOf returns the keys of the object at path in shape, in order.
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

// encodeFor returns value as JSON for a field: "" and a zero time become null where null is allowed, a nil list becomes [].
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
		value = formatTime(v)
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
