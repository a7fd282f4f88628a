package taskdir

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Parse reads the content of a task.json; file is its name in problems. The error is a
// *trellis.Problem: data is no JSON object, or a field that Trellis uses stands in it twice, so that no
// two tools would agree on its value. All else is read as far as it makes sense, see Task.Problems.
func Parse(file string, data []byte) (*Task, error) {
	doc, p := checkText(file, data)
	if p != nil {
		return nil, p
	}
	r := &reader{file: file, doc: doc, t: &Task{Raw: data}}
	r.t.Status, r.t.Priority = trellis.Planning, "P2"
	r.t.Pipeline.SchemaVersion, r.t.Pipeline.Approval.Approvers = schemaVersion, 1
	if r.object("", gjson.Parse(doc), r.field); r.fatal != nil {
		return nil, r.fatal
	}
	slices.SortStableFunc(r.t.Problems, func(a, b trellis.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.t, nil
}

// Line is where a value of task.json stands, by its keys with dots between, such as pipeline.depends_on.0; 0 when it
// has none.
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

// problem notes what is wrong with the value v. gjson tells where a value lies in the text.
func (r *reader) problem(v gjson.Result, format string, args ...any) *trellis.Problem {
	p := problemAt(r.file, r.doc, v.Index, fmt.Sprintf(format, args...))
	r.t.Problems = append(r.t.Problems, *p)
	return &r.t.Problems[len(r.t.Problems)-1]
}

func (r *reader) warn(v gjson.Result, format string, args ...any) {
	r.problem(v, format, args...).Warning = true
}

// object reads the members of v, the object at path. take reports whether it knows the key; one that it knows may not
// stand there twice. Others are kept and passed over, and told when they look like a slip.
func (r *reader) object(path string, v gjson.Result, take func(key string, v gjson.Result) bool) {
	var seen []string
	var unknown []gjson.Result
	defer func() { r.misspelled(path, unknown, seen) }()
	v.ForEach(func(key, v gjson.Result) bool {
		if !take(key.Str, v) {
			unknown = append(unknown, key)
			return true
		}
		if slices.Contains(seen, key.Str) && r.fatal == nil {
			r.fatal = problemAt(r.file, r.doc, key.Index, fmt.Sprintf("%q stands here for the second time", key.Str))
			r.fatal.Hint = "remove one of the two"
		}
		seen = append(seen, key.Str)
		return true
	})
}

// misspelled warns of unknown keys that are nearly spelled as a field that is not there.
func (r *reader) misspelled(path string, unknown []gjson.Result, seen []string) {
	if len(unknown) == 0 || path == "pipeline.judge" {
		return
	}
	known := slices.DeleteFunc(keysOf(path), func(key string) bool { return slices.Contains(seen, key) })
	for _, key := range unknown {
		if near := trellis.Nearest(key.Str, known); near != "" {
			p := r.problem(key, "%q is no field, and is passed over", clip(key.Str))
			p.Warning, p.Hint = true, "did you mean: "+near
		}
	}
}

// field reads one of the top-level fields.
func (r *reader) field(key string, v gjson.Result) bool {
	t := r.t
	switch key {
	case "id": // the directory's name is the identity
		r.text(key, v)
	case "name":
		t.Name = r.name(v)
	case "title":
		t.Title = r.text(key, v)
	case "description":
		t.Description = r.text(key, v)
	case "status":
		t.Status = r.status(v)
	case "dev_type":
		t.DevType = r.oneOf(key, v, trellis.DevTypes)
	case "scope":
		t.Scope = r.scope(v)
	case "package":
		t.Package = r.text(key, v)
	case "priority":
		t.Priority = r.priority(v)
	case "creator":
		t.Creator = r.text(key, v)
	case "assignee":
		t.Assignee = r.text(key, v)
	case "createdAt":
		t.CreatedAt = r.date(key, v)
	case "completedAt":
		t.CompletedAt = r.date(key, v)
	default:
		return r.laterField(key, v)
	}
	return true
}

func (r *reader) laterField(key string, v gjson.Result) bool {
	t := r.t
	switch key {
	case "branch":
		t.Branch = r.text(key, v)
	case "base_branch":
		t.BaseBranch = r.text(key, v)
	case "worktree_path":
		t.WorktreePath = r.text(key, v)
	case "commit":
		t.Commit = r.text(key, v)
	case "pr_url":
		t.PRURL = r.text(key, v)
	case "subtasks":
		t.Subtasks = r.strings(v)
	case "children":
		t.Children = r.list(key, v)
	case "parent":
		t.Parent = r.text(key, v)
	case "relatedFiles":
		t.RelatedFiles = r.strings(v)
	case "notes":
		t.Notes = r.text(key, v)
	case "meta":
		r.isObject(key, v)
	case "created": // createdAt of the oldest versions
		if t.CreatedAt == "" {
			t.CreatedAt = r.date(key, v)
		}
	case "pipeline":
		if r.isObject(key, v) {
			r.object("pipeline", v, r.pipeline)
		}
	default:
		return false
	}
	return true
}

// pipeline reads one of the fields below "pipeline".
func (r *reader) pipeline(key string, v gjson.Result) bool {
	p, name := &r.t.Pipeline, "pipeline."+key
	switch key {
	case "schema_version":
		p.SchemaVersion = r.schemaVersion(v)
	case "revision":
		p.Revision = r.count(name, v)
	case "size":
		p.Size = trellis.Size(r.oneOf(name, v, sizes()))
	case "agent":
		p.Agent = r.text(name, v)
	case "verify":
		p.Verify = r.list(name, v)
	case "depends_on":
		p.DependsOn = r.list(name, v)
	case "touches":
		p.Touches = r.list(name, v)
	case "protected":
		p.Protected = r.list(name, v)
	case "not_before":
		p.NotBefore = r.time(name, v)
	case "plan_hash":
		p.PlanHash = r.text(name, v)
	case "base_commit":
		p.BaseCommit = r.text(name, v)
	case "stacked_on":
		p.StackedOn = r.text(name, v)
	case "phase":
		p.Phase = r.text(name, v)
	case "round":
		p.Round = int(r.count(name, v))
	case "attempt":
		p.Attempt = int(r.count(name, v))
	case "outcome":
		p.Outcome = trellis.Outcome(r.text(name, v))
	case "resume_at":
		p.ResumeAt = r.time(name, v)
	default:
		return r.pipelineObject(key, name, v)
	}
	return true
}

// pipelineObject reads one of the objects below "pipeline".
func (r *reader) pipelineObject(key, name string, v gjson.Result) bool {
	p := &r.t.Pipeline
	var take func(key string, v gjson.Result) bool
	switch key {
	case "objective":
		take = r.texts(name, map[string]*string{"name": &p.Objective.Name, "step": &p.Objective.Step})
	case "rejection":
		take = r.rejection
	case "judge":
		take = r.judge
	case "approval":
		take = r.approval
	case "failure":
		take = r.failure
	case "usage":
		take = r.usage
	default:
		return false
	}
	if r.isObject(name, v) {
		r.object(name, v, take)
	}
	return true
}

func (r *reader) rejection(key string, v gjson.Result) bool {
	p := &r.t.Pipeline.Rejection
	if key == "suggestions" {
		p.Suggestions = r.list("pipeline.rejection.suggestions", v)
		return true
	}
	return r.texts("pipeline.rejection", map[string]*string{"category": &p.Category, "details": &p.Details})(key, v)
}

func (r *reader) judge(key string, v gjson.Result) bool {
	if r.t.Pipeline.Judge == nil {
		r.t.Pipeline.Judge = &Judge{}
	}
	p := r.t.Pipeline.Judge
	if key == "pass" {
		p.Pass = r.bool("pipeline.judge.pass", v)
		return true
	}
	return r.texts("pipeline.judge", map[string]*string{"feedback": &p.Feedback})(key, v)
}

func (r *reader) approval(key string, v gjson.Result) bool {
	p := &r.t.Pipeline.Approval
	switch key {
	case "required":
		p.Required = r.bool("pipeline.approval.required", v)
	case "approvers":
		p.Approvers = int(r.count("pipeline.approval.approvers", v))
	default:
		return false
	}
	return true
}

func (r *reader) failure(key string, v gjson.Result) bool {
	p := &r.t.Pipeline.Failure
	switch key {
	case "code":
		p.Code = trellis.Code(r.text("pipeline.failure.code", v))
	case "detail":
		p.Detail = r.text("pipeline.failure.detail", v)
	case "retryable":
		p.Retryable = r.bool("pipeline.failure.retryable", v)
	case "at":
		p.At = r.time("pipeline.failure.at", v)
	default:
		return false
	}
	return true
}

func (r *reader) usage(key string, v gjson.Result) bool {
	p, name := &r.t.Pipeline.Usage, "pipeline.usage."+key
	switch key {
	case "input_tokens":
		p.InputTokens = r.count(name, v)
	case "output_tokens":
		p.OutputTokens = r.count(name, v)
	case "cached_tokens":
		p.CachedTokens = r.count(name, v)
	case "cost_usd":
		if v.Type != gjson.Null {
			cost := r.number(name, v)
			p.CostUSD = &cost
		}
	case "seconds":
		p.Seconds = r.number(name, v)
	default:
		return false
	}
	return true
}
