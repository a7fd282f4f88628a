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
	if r.object("", gjson.Parse(doc), r.fields()); r.fatal != nil {
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

// stray is an unknown key with its value.
type stray struct{ key, value gjson.Result }

// members maps the keys of an object to the functions that read their values. name is the value's name in problems.
type members map[string]func(name string, v gjson.Result)

// object reads the members of v, the object at path. A known key may occur only once. Unknown keys are kept but ignored, and
// reported if they look like a mistake.
func (r *reader) object(path string, v gjson.Result, known members) {
	var seen []string
	var unknown []stray
	defer func() { r.misspelled(path, unknown, seen) }()
	v.ForEach(func(key, v gjson.Result) bool {
		take, ok := known[key.Str]
		if !ok {
			unknown = append(unknown, stray{key, v})
			return true
		}
		take(strings.TrimPrefix(path+"."+key.Str, "."), v)
		if slices.Contains(seen, key.Str) && r.fatal == nil {
			r.fatal = problemAt(r.file, r.doc, key.Index, fmt.Sprintf("%q stands here for the second time", key.Str))
			r.fatal.Hint = "remove one of the two"
		}
		seen = append(seen, key.Str)
		return true
	})
}

// others lists fields that people write into the wrong one of two objects.
var others = map[string][]string{
	"":         {"agent", "verify", "depends_on", "touches", "protected", "not_before", "approval"},
	"pipeline": {"title", "description", "status", "dev_type", "scope", "package", "priority", "assignee", "branch", "base_branch"},
}

// guards are the fields that make a task wait, or ask people about it.
var guards = []string{"depends_on", "not_before", "touches", "protected", "approval", "required", "approvers"}

// misspelled reports unknown keys that are fields of another object, or are spelled almost like one of those or like a field
// that is missing. A field of pipeline outside of pipeline prevents work from beginning, and so does a key that is clearly
// meant as a guard, even if that guard exists as well: its author relies on it.
func (r *reader) misspelled(path string, unknown []stray, seen []string) {
	if len(unknown) == 0 || path == "pipeline.judge" {
		return
	}
	known := slices.DeleteFunc(keysOf(path), func(key string) bool { return slices.Contains(seen, key) })
	for _, m := range unknown {
		key := m.key
		if slices.Contains(others[path], key.Str) {
			if path == "" {
				p := r.problem(key, `%q belongs in "pipeline": nothing reads it here`, key.Str)
				p.Warning, p.Hint = !r.keepsBack(m.value), r.edit()
				continue
			}
			p := r.problem(key, "%q is not a field here, and is passed over", key.Str)
			p.Warning, p.Hint = true, "write it outside of "+strconv.Quote(path)
		} else if near := trellis.Nearest(key.Str, slices.Concat(known, others[path])); near != "" {
			p := r.problem(key, "%q is not a field, and is passed over", clip(key.Str))
			p.Warning, p.Hint = true, "did you mean: "+near
			switch {
			case !slices.Contains(others[path], near):
			case path == "":
				p.Hint += `, in "pipeline"`
			default:
				p.Hint += ", outside of " + strconv.Quote(path)
			}
			if slices.Contains(guards, near) && trellis.Slip(key.Str, near) && r.keepsBack(m.value) {
				p.Warning, p.Message, p.Hint = false, fmt.Sprintf("%q is not a field: %s", clip(key.Str), p.Hint), r.edit()
			}
		} else if i := slices.IndexFunc(seen, func(s string) bool { return slices.Contains(guards, s) && trellis.Slip(key.Str, s) }); i >= 0 && r.keepsBack(m.value) {
			r.problem(key, "%q is not a field, and %s stands here too: only that is read", clip(key.Str), seen[i]).Hint = r.edit()
		}
	}
}

// keepsBack reports whether an ignored field has a non-empty value while work is still to begin. The status is looked up in the
// text, as it may follow the field.
func (r *reader) keepsBack(value gjson.Result) bool {
	begins := slices.Contains([]trellis.Status{"", trellis.Planning, trellis.Ready}, trellis.Status(gjson.Get(r.doc, "status").Str))
	return begins && !slices.Contains([]string{"null", `""`, "[]", "{}", "false"}, value.Raw)
}

// into stores the result of read in a field.
func into[T any](field *T, read func(name string, v gjson.Result) T) func(string, gjson.Result) {
	return func(name string, v gjson.Result) { *field = read(name, v) }
}

// as converts the result of read to a string type.
func as[T ~string](read func(name string, v gjson.Result) string) func(string, gjson.Result) T {
	return func(name string, v gjson.Result) T { return T(read(name, v)) }
}

func (r *reader) fields() members {
	t := r.t
	return members{
		"id":            into(new(string), r.text), // the directory's name is the identity
		"name":          into(&t.Name, r.name),
		"title":         into(&t.Title, r.text),
		"description":   into(&t.Description, r.text),
		"status":        into(&t.Status, r.status),
		"dev_type":      into(&t.DevType, r.oneOf(trellis.DevTypes)),
		"scope":         into(&t.Scope, r.scope),
		"package":       into(&t.Package, r.text),
		"priority":      into(&t.Priority, r.priority),
		"creator":       into(&t.Creator, r.text),
		"assignee":      into(&t.Assignee, r.text),
		"createdAt":     into(&t.CreatedAt, r.date),
		"completedAt":   into(&t.CompletedAt, r.date),
		"branch":        into(&t.Branch, r.text),
		"base_branch":   into(&t.BaseBranch, r.text),
		"worktree_path": into(&t.WorktreePath, r.text),
		"commit":        into(&t.Commit, r.text),
		"pr_url":        into(&t.PRURL, r.text),
		"subtasks":      into(&t.Subtasks, r.strings),
		"children":      into(&t.Children, r.list),
		"parent":        into(&t.Parent, r.text),
		"relatedFiles":  into(&t.RelatedFiles, r.strings),
		"notes":         into(&t.Notes, r.text),
		"meta":          r.within(r.meta),
		"created": func(name string, v gjson.Result) { // the name of createdAt in the oldest versions
			if t.CreatedAt == "" {
				t.CreatedAt = r.date(name, v)
			}
		},
		"pipeline": r.within(r.pipeline),
	}
}

// within reads an object's known members, or none of them if known is nil.
func (r *reader) within(known func() members) func(name string, v gjson.Result) {
	return func(name string, v gjson.Result) {
		if !v.IsObject() && v.Type != gjson.Null {
			r.problem(v, "%q is %s, it must be an object", name, kind(v))
		}
		if v.IsObject() && known != nil {
			r.object(name, v, known())
		}
	}
}

// meta reads meta.source. Other keys of meta are ignored.
func (r *reader) meta() members {
	return members{"source": r.within(func() members {
		s := &r.t.Source
		return members{"issue": into(&s.Issue, r.text), "url": into(&s.URL, r.text), "comment": into(&s.Comment, r.bool)}
	})}
}

func (r *reader) pipeline() members {
	p := &r.t.Pipeline
	return members{
		"schema_version": into(&p.SchemaVersion, r.schemaVersion),
		"revision":       into(&p.Revision, r.count),
		"size":           into(&p.Size, as[trellis.Size](r.oneOf(trellis.Strings(trellis.Sizes)))),
		"agent":          into(&p.Agent, r.text),
		"verify":         into(&p.Verify, r.list),
		"depends_on":     into(&p.DependsOn, r.list),
		"touches":        into(&p.Touches, r.list),
		"protected":      into(&p.Protected, r.list),
		"not_before":     into(&p.NotBefore, r.time),
		"plan_hash":      into(&p.PlanHash, r.text),
		"base_commit":    into(&p.BaseCommit, r.text),
		"stacked_on":     into(&p.StackedOn, r.text),
		"phase":          into(&p.Phase, r.text),
		"round":          into(&p.Round, r.int),
		"attempt":        into(&p.Attempt, r.int),
		"outcome":        into(&p.Outcome, as[trellis.Outcome](r.text)),
		"resume_at":      into(&p.ResumeAt, r.time),
		"objective": r.within(func() members {
			return members{"name": into(&p.Objective.Name, r.text), "step": into(&p.Objective.Step, r.text)}
		}),
		"rejection": r.within(func() members {
			j := &p.Rejection
			return members{"category": into(&j.Category, r.text), "details": into(&j.Details, r.text), "suggestions": into(&j.Suggestions, r.list)}
		}),
		"judge": func(name string, v gjson.Result) {
			var j Judge
			r.within(func() members {
				return members{"pass": into(&j.Pass, r.bool), "feedback": into(&j.Feedback, r.text)}
			})(name, v)
			if v.IsObject() && len(v.Map()) > 0 {
				p.Judge = &j
			}
		},
		"approval": r.within(func() members {
			return members{"required": into(&p.Approval.Required, r.bool), "approvers": into(&p.Approval.Approvers, r.int),
				"asked": into(&p.Approval.Asked, r.int)}
		}),
		"failure": r.within(func() members {
			f := &p.Failure
			return members{"code": into(&f.Code, as[trellis.Code](r.text)), "detail": into(&f.Detail, r.text),
				"retryable": into(&f.Retryable, r.bool), "at": into(&f.At, r.time)}
		}),
		"usage": r.within(r.usage),
	}
}

func (r *reader) usage() members {
	u := &r.t.Pipeline.Usage
	return members{
		"input_tokens":  into(&u.InputTokens, r.count),
		"output_tokens": into(&u.OutputTokens, r.count),
		"cached_tokens": into(&u.CachedTokens, r.count),
		"cost_usd": func(name string, v gjson.Result) {
			if v.Type != gjson.Null {
				cost := r.number(name, v)
				u.CostUSD = &cost
			}
		},
		"seconds":        into(&u.Seconds, r.number),
		"cost_estimated": into(&u.CostEstimated, r.bool),
		"cost_partial":   into(&u.CostPartial, r.bool),
	}
}
