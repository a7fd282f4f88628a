package taskdir

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (r *reader) text(name string, v gjson.Result) string {
	if v.Type != gjson.String && v.Type != gjson.Null {
		r.problem(v, "%q is %s, it must be text", name, kind(v))
		return ""
	}
	return v.Str
}

// maxForeignName is the maximum length of a task's name that another tool chose, in bytes: a branch is named after it.
const maxForeignName = 200

// name accepts names by other tools too, which may have dots and be longer than those made here.
func (r *reader) name(name string, v gjson.Result) string {
	s := r.text(name, v)
	if s != "" && !trellis.ValidName(s) && (!ValidID(s) || len(s) > maxForeignName) {
		p := r.problem(v, "the name %q is not legal: letters, digits, dots, underscores and single dashes, at most %d", clip(s), maxForeignName)
		if slug := trellis.Slug(s); slug != "" {
			p.Hint = fmt.Sprintf("write %q", slug)
		}
	}
	return s
}

func (r *reader) status(name string, v gjson.Result) trellis.Status {
	s := r.text(name, v)
	if s == "" {
		return trellis.Planning
	}
	status, err := trellis.ParseStatus(s)
	if err != nil {
		r.problem(v, "%v", err).Hint = r.editCommand()
		return trellis.Status(s)
	}
	return status
}

// editCommand returns the command that opens the file, "" if its task is unknown.
func (r *reader) editCommand() string {
	id := filepath.Base(filepath.Dir(r.file))
	if id == "." {
		return ""
	}
	return "trellis edit " + trellis.ShellWord(id) + " task"
}

// priority also accepts the words of older versions.
func (r *reader) priority(name string, v gjson.Result) string {
	switch s := r.text(name, v); strings.ToLower(s) {
	case "", "medium", "normal":
		return "P2"
	case "high":
		return "P1"
	case "low":
		return "P3"
	default:
		if up := strings.ToUpper(s); slices.Contains(trellis.Priorities, up) {
			return up
		}
		return r.oneOf(trellis.Priorities)(name, v)
	}
}

func (r *reader) oneOf(legal []string) func(name string, v gjson.Result) string {
	return func(name string, v gjson.Result) string {
		s := r.text(name, v)
		if s != "" && !slices.Contains(legal, s) {
			r.problem(v, "%q is %q, it must be one of %s", name, s, strings.Join(legal, ", "))
		}
		return s
	}
}

func (r *reader) scope(name string, v gjson.Result) string {
	if v.IsArray() {
		return strings.Join(r.list(name, v), ",")
	}
	return r.text(name, v)
}

// date reads a day. As nothing depends on days, an invalid one is only a warning.
func (r *reader) date(name string, v gjson.Result) string {
	s := r.text(name, v)
	if s == "" {
		return ""
	}
	if _, err := time.Parse(time.DateOnly, s[:min(len(s), len(time.DateOnly))]); err != nil {
		r.problem(v, "%q is %q, it should be a day like 2026-01-31", name, s).Warning = true
	}
	return s
}

// time reads a time, or a day, which begins at local midnight.
func (r *reader) time(name string, v gjson.Result) time.Time {
	s := r.text(name, v)
	if s == "" {
		return time.Time{}
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at
	}
	at, err := time.ParseInLocation(time.DateOnly, s, time.Local)
	if err != nil {
		r.problem(v, "%q is %q, it must be a time like 2026-01-31T08:00:00Z or a day", name, s)
		return time.Time{}
	}
	return at
}

// list reads a list of texts; null is an empty list, a single text a list of one.
func (r *reader) list(name string, v gjson.Result) []string {
	if v.Type == gjson.String {
		return []string{v.Str}
	}
	if v.Type != gjson.Null && !v.IsArray() {
		r.problem(v, "%q is %s, it must be a list of texts", name, kind(v))
		return nil
	}
	list := r.strings(name, v)
	v.ForEach(func(_, item gjson.Result) bool {
		if item.Type != gjson.String && v.IsArray() {
			r.problem(item, "%q holds %s, it must be a list of texts", name, kind(item))
			return false
		}
		return true
	})
	return list
}

// strings returns the texts in a list. Older versions kept objects in some lists that nothing depends on.
func (r *reader) strings(_ string, v gjson.Result) []string {
	if !v.IsArray() {
		return nil
	}
	var list []string
	v.ForEach(func(_, item gjson.Result) bool {
		if item.Type == gjson.String {
			list = append(list, item.Str)
		}
		return true
	})
	return list
}

func (r *reader) bool(name string, v gjson.Result) bool {
	if !v.IsBool() && v.Type != gjson.Null {
		r.problem(v, "%q is %s, it must be true or false", name, kind(v))
	}
	return v.Type == gjson.True
}

// count reads a whole number that is not negative.
func (r *reader) count(name string, v gjson.Result) int64 {
	if v.Type == gjson.Null {
		return 0
	}
	n, err := strconv.ParseInt(v.Raw, 10, 64)
	if f, floatErr := strconv.ParseFloat(v.Raw, 64); err != nil && floatErr == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		n, err = int64(f), nil // 2.0, 1e3
	}
	if v.Type != gjson.Number || err != nil || n < 0 {
		r.problem(v, "%q is %s, it must be a whole number from 0", name, displayValue(v))
		return 0
	}
	return n
}

func (r *reader) number(name string, v gjson.Result) float64 {
	if v.Type != gjson.Number && v.Type != gjson.Null || v.Num < 0 || math.IsInf(v.Num, 0) {
		r.problem(v, "%q is %s, it must be a number from 0", name, displayValue(v))
		return 0
	}
	return v.Num
}

func (r *reader) int(name string, v gjson.Result) int { return int(r.count(name, v)) }

func (r *reader) schemaVersion(name string, v gjson.Result) int {
	n := r.int(name, v)
	if n > schemaVersion {
		r.problem(v, "pipeline.schema_version is %d; this Trellis knows versions up to %d", n, schemaVersion).Hint = "update trellis"
	}
	return n
}

// kind returns the type of a value in words.
func kind(v gjson.Result) string {
	switch {
	case v.IsObject():
		return "an object"
	case v.IsArray():
		return "a list"
	case v.Type == gjson.String:
		return "text"
	case v.Type == gjson.Number:
		return "a number"
	case v.Type == gjson.Null:
		return "null"
	}
	return "true or false"
}

// displayValue returns a number as written, and the kind of any other value.
func displayValue(v gjson.Result) string {
	if v.Type == gjson.Number && len(v.Raw) < 40 {
		return v.Raw
	}
	return kind(v)
}
