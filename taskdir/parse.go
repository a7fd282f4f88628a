package taskdir

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Parse reads the content of a task.json; file is its name in problems. The error is a *trellis.Problem: data is not a JSON
// object, or a field that Trellis uses occurs twice, so that tools would disagree on its value. Everything else is read as far
// as it makes sense, see Task.Problems.
func Parse(file string, data []byte) (*Task, error) {
	doc, p := checkText(file, data)
	if p != nil {
		return nil, p
	}
	r := &reader{file: file, doc: doc, t: &Task{Raw: data}}
	r.t.Status, r.t.Priority = trellis.Planning, "P2"
	r.t.Pipeline.SchemaVersion, r.t.Pipeline.Approval.Approvers = schemaVersion, 1
	if r.readObject("", gjson.Parse(doc), r.fields()); r.fatal != nil {
		return nil, r.fatal
	}
	slices.SortStableFunc(r.t.Problems, func(a, b trellis.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.t, nil
}

// Line returns the line of a value in task.json, given its keys separated by dots, such as pipeline.depends_on.0; 0 if there is
// no such value.
func (t *Task) Line(keys string) int {
	doc := strings.TrimPrefix(string(t.Raw), bom)
	v := gjson.Get(doc, keys)
	if !v.Exists() {
		return 0
	}
	return problemAt("", doc, v.Index, "").Line
}

// reader fills a Task from the text of its file.
type reader struct {
	file  string
	doc   string
	t     *Task
	fatal *trellis.Problem
}

// problem records a problem of the value v. v.Index is its position in the text.
func (r *reader) problem(v gjson.Result, format string, args ...any) *trellis.Problem {
	p := problemAt(r.file, r.doc, v.Index, fmt.Sprintf(format, args...))
	r.t.Problems = append(r.t.Problems, *p)
	return &r.t.Problems[len(r.t.Problems)-1]
}

// unknownMember is an unknown key with its value.
type unknownMember struct{ key, value gjson.Result }

// members maps the keys of an object to the functions that read their values. name is the value's name in problems.
type members map[string]func(name string, v gjson.Result)

// readObject reads the members of v, the object at path. A known key may occur only once. Unknown keys are kept but ignored, and
// reported if they look like a mistake.
func (r *reader) readObject(path string, v gjson.Result, known members) {
	var seen []string
	var unknown []unknownMember
	defer func() { r.reportMisspelled(path, unknown, seen) }()
	v.ForEach(func(key, v gjson.Result) bool {
		take, ok := known[key.Str]
		if !ok {
			unknown = append(unknown, unknownMember{key, v})
			return true
		}
		take(strings.TrimPrefix(path+"."+key.Str, "."), v)
		if slices.Contains(seen, key.Str) && r.fatal == nil {
			r.fatal = problemAt(r.file, r.doc, key.Index, fmt.Sprintf("%q appears twice here", key.Str))
			r.fatal.Hint = "remove one of the two"
		}
		seen = append(seen, key.Str)
		return true
	})
}

// misplacedFields lists fields that people write into the wrong one of two objects.
var misplacedFields = map[string][]string{
	"":         {"agent", "verify", "depends_on", "touches", "protected", "not_before", "approval"},
	"pipeline": {"title", "description", "status", "dev_type", "scope", "package", "priority", "assignee", "branch", "base_branch"},
}

// guardFields are the fields that make a task wait, or ask people about it.
var guardFields = []string{"depends_on", "not_before", "touches", "protected", "approval", "required", "approvers"}

// reportMisspelled reports unknown keys that are fields of another object, or are spelled almost like one of those or like a field
// that is missing. A field of pipeline outside of pipeline prevents work from beginning, and so does a key that is clearly
// meant as a guard, even if that guard exists as well: its author relies on it.
func (r *reader) reportMisspelled(path string, unknown []unknownMember, seen []string) {
	if len(unknown) == 0 || path == "pipeline.judge" {
		return
	}
	known := slices.DeleteFunc(keysOf(path), func(key string) bool { return slices.Contains(seen, key) })
	for _, m := range unknown {
		key := m.key
		if slices.Contains(misplacedFields[path], key.Str) {
			if path == "" {
				p := r.problem(key, `%q belongs in "pipeline": nothing reads it here`, key.Str)
				p.Warning, p.Hint = !r.isSetBeforeWork(m.value), r.editCommand()
				continue
			}
			p := r.problem(key, "%q is not a field here, and is ignored", key.Str)
			p.Warning, p.Hint = true, "write it outside of "+strconv.Quote(path)
		} else if near := trellis.Nearest(key.Str, slices.Concat(known, misplacedFields[path])); near != "" {
			p := r.problem(key, "%q is not a field, and is ignored", clip(key.Str))
			p.Warning, p.Hint = true, "did you mean: "+near
			switch {
			case !slices.Contains(misplacedFields[path], near):
			case path == "":
				p.Hint += `, in "pipeline"`
			default:
				p.Hint += ", outside of " + strconv.Quote(path)
			}
			if slices.Contains(guardFields, near) && trellis.IsMisspelling(key.Str, near) && r.isSetBeforeWork(m.value) {
				p.Warning, p.Message, p.Hint = false, fmt.Sprintf("%q is not a field: %s", clip(key.Str), p.Hint), r.editCommand()
			}
		} else if i := slices.IndexFunc(seen, func(s string) bool { return slices.Contains(guardFields, s) && trellis.IsMisspelling(key.Str, s) }); i >= 0 && r.isSetBeforeWork(m.value) {
			r.problem(key, "%q is not a field, and %s is here too: only that is read", clip(key.Str), seen[i]).Hint = r.editCommand()
		}
	}
}

// isSetBeforeWork reports whether an ignored field has a non-empty value while work is still to begin. A waiting task that has a base
// has begun. Both are looked up in the text, as they may follow the field.
func (r *reader) isSetBeforeWork(value gjson.Result) bool {
	status := trellis.Status(gjson.Get(r.doc, "status").Str)
	begins := slices.Contains([]trellis.Status{"", trellis.Planning, trellis.Ready}, status) ||
		status == trellis.Waiting && gjson.Get(r.doc, "pipeline.base_commit").Str == ""
	return begins && !slices.Contains([]string{"null", `""`, "[]", "{}", "false"}, value.Raw)
}

// storeIn stores the result of read in a field.
func storeIn[T any](field *T, read func(name string, v gjson.Result) T) func(string, gjson.Result) {
	return func(name string, v gjson.Result) { *field = read(name, v) }
}

// asType converts the result of read to a string type.
func asType[T ~string](read func(name string, v gjson.Result) string) func(string, gjson.Result) T {
	return func(name string, v gjson.Result) T { return T(read(name, v)) }
}

func (r *reader) fields() members {
	t := r.t
	return members{
		"id":            storeIn(new(string), r.text), // the directory's name is the identity
		"name":          storeIn(&t.Name, r.name),
		"title":         storeIn(&t.Title, r.text),
		"description":   storeIn(&t.Description, r.text),
		"status":        storeIn(&t.Status, r.status),
		"dev_type":      storeIn(&t.DevType, r.oneOf(trellis.DevTypes)),
		"scope":         storeIn(&t.Scope, r.scope),
		"package":       storeIn(&t.Package, r.text),
		"priority":      storeIn(&t.Priority, r.priority),
		"creator":       storeIn(&t.Creator, r.text),
		"assignee":      storeIn(&t.Assignee, r.text),
		"createdAt":     storeIn(&t.CreatedAt, r.date),
		"completedAt":   storeIn(&t.CompletedAt, r.date),
		"branch":        storeIn(&t.Branch, r.text),
		"base_branch":   storeIn(&t.BaseBranch, r.text),
		"worktree_path": storeIn(&t.WorktreePath, r.text),
		"commit":        storeIn(&t.Commit, r.text),
		"pr_url":        storeIn(&t.PRURL, r.text),
		"subtasks":      storeIn(&t.Subtasks, r.strings),
		"children":      storeIn(&t.Children, r.list),
		"parent":        storeIn(&t.Parent, r.text),
		"relatedFiles":  storeIn(&t.RelatedFiles, r.strings),
		"notes":         storeIn(&t.Notes, r.text),
		"meta":          r.objectReader(r.meta),
		"created": func(name string, v gjson.Result) { // the name of createdAt in the oldest versions
			if t.CreatedAt == "" {
				t.CreatedAt = r.date(name, v)
			}
		},
		"pipeline": r.objectReader(r.pipeline),
	}
}

// objectReader reads an object's known members, or none of them if known is nil.
func (r *reader) objectReader(known func() members) func(name string, v gjson.Result) {
	return func(name string, v gjson.Result) {
		if !v.IsObject() && v.Type != gjson.Null {
			r.problem(v, "%q is %s, it must be an object", name, kind(v))
		}
		if v.IsObject() && known != nil {
			r.readObject(name, v, known())
		}
	}
}

// meta reads meta.source. Other keys of meta are ignored.
func (r *reader) meta() members {
	return members{"source": r.objectReader(func() members {
		s := &r.t.Source
		return members{"issue": storeIn(&s.Issue, r.text), "url": storeIn(&s.URL, r.text), "comment": storeIn(&s.Comment, r.bool)}
	})}
}

func (r *reader) pipeline() members {
	p := &r.t.Pipeline
	return members{
		"schema_version": storeIn(&p.SchemaVersion, r.schemaVersion),
		"revision":       storeIn(&p.Revision, r.count),
		"size":           storeIn(&p.Size, asType[trellis.Size](r.oneOf(trellis.Strings(trellis.Sizes)))),
		"agent":          storeIn(&p.Agent, r.text),
		"verify":         storeIn(&p.Verify, r.list),
		"depends_on":     storeIn(&p.DependsOn, r.list),
		"touches":        storeIn(&p.Touches, r.list),
		"protected":      storeIn(&p.Protected, r.list),
		"not_before":     storeIn(&p.NotBefore, r.time),
		"plan_hash":      storeIn(&p.PlanHash, r.text),
		"base_commit":    storeIn(&p.BaseCommit, r.text),
		"stacked_on":     storeIn(&p.StackedOn, r.text),
		"phase":          storeIn(&p.Phase, r.text),
		"round":          storeIn(&p.Round, r.int),
		"attempt":        storeIn(&p.Attempt, r.int),
		"outcome":        storeIn(&p.Outcome, asType[trellis.Outcome](r.text)),
		"resume_at":      storeIn(&p.ResumeAt, r.time),
		"objective": r.objectReader(func() members {
			return members{"name": storeIn(&p.Objective.Name, r.text), "step": storeIn(&p.Objective.Step, r.text)}
		}),
		"rejection": r.objectReader(func() members {
			j := &p.Rejection
			return members{"category": storeIn(&j.Category, r.text), "details": storeIn(&j.Details, r.text), "suggestions": storeIn(&j.Suggestions, r.list)}
		}),
		"judge": func(name string, v gjson.Result) {
			var j Judge
			r.objectReader(func() members {
				return members{"pass": storeIn(&j.Pass, r.bool), "feedback": storeIn(&j.Feedback, r.text)}
			})(name, v)
			if v.IsObject() && len(v.Map()) > 0 {
				p.Judge = &j
			}
		},
		"approval": r.objectReader(func() members {
			return members{"required": storeIn(&p.Approval.Required, r.bool), "approvers": storeIn(&p.Approval.Approvers, r.int),
				"asked": storeIn(&p.Approval.Asked, r.int)}
		}),
		"failure": r.objectReader(func() members {
			f := &p.Failure
			return members{"code": storeIn(&f.Code, asType[trellis.Code](r.text)), "detail": storeIn(&f.Detail, r.text),
				"retryable": storeIn(&f.Retryable, r.bool), "at": storeIn(&f.At, r.time)}
		}),
		"usage": r.objectReader(r.usage),
	}
}

func (r *reader) usage() members {
	u := &r.t.Pipeline.Usage
	return members{
		"input_tokens":  storeIn(&u.InputTokens, r.count),
		"output_tokens": storeIn(&u.OutputTokens, r.count),
		"cached_tokens": storeIn(&u.CachedTokens, r.count),
		"cost_usd": func(name string, v gjson.Result) {
			if v.Type != gjson.Null {
				cost := r.number(name, v)
				u.CostUSD = &cost
			}
		},
		"seconds":        storeIn(&u.Seconds, r.number),
		"cost_estimated": storeIn(&u.CostEstimated, r.bool),
		"cost_partial":   storeIn(&u.CostPartial, r.bool),
	}
}
