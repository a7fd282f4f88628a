package taskdir_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// newValues has a value for every field; no test document has the same value.
var newValues = map[string]any{
	"id": "ni", "name": "new-name", "title": "Ünïcode <b> & \"quoted\" \\ 😀", "description": "line\nbreak\ttab", "status": "cancelled",
	"dev_type": "docs", "scope": "ns", "package": "np", "priority": "P0", "creator": "nc", "assignee": "na",
	"createdAt": "1999-01-01", "completedAt": "1999-01-02", "branch": "feature/ñ", "base_branch": "nb", "worktree_path": "/n w",
	"commit": "abc", "pr_url": "https://x/?a=1&b=2", "subtasks": []string{"n1"}, "children": []string{"n1", "n2"}, "parent": "np",
	"relatedFiles": []string{}, "notes": "{\"not\": [\"json\"]}", "meta": map[string]any{"new_key": []any{"x", nil}},
	"pipeline.schema_version": 1, "pipeline.revision": 4711, "pipeline.size": "tiny", "pipeline.agent": "n",
	"pipeline.verify": []string{"go test ./... && echo '}'", "x"}, "pipeline.depends_on": []string{"01-01-n"}, "pipeline.touches": []string{"**/*.n"},
	"pipeline.protected": []string{"n"}, "pipeline.not_before": time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC),
	"pipeline.objective.name": "n", "pipeline.objective.step": "9Z", "pipeline.rejection.category": "harmful",
	"pipeline.rejection.details": "n", "pipeline.rejection.suggestions": []string{"n"}, "pipeline.judge": taskdir.Judge{Pass: true, Feedback: "n"},
	"pipeline.approval.required": true, "pipeline.approval.approvers": 9, "pipeline.plan_hash": "sha256:n",
	"pipeline.base_commit": "n", "pipeline.stacked_on": "n", "pipeline.phase": "np", "pipeline.round": 99, "pipeline.attempt": 98,
	"pipeline.outcome": "merged", "pipeline.failure.code": "conflict", "pipeline.failure.detail": "n",
	"pipeline.failure.retryable": true, "pipeline.failure.at": time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC),
	"pipeline.resume_at": time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), "pipeline.usage.input_tokens": 1 << 60,
	"pipeline.usage.output_tokens": 5, "pipeline.usage.cached_tokens": 5, "pipeline.usage.cost_usd": 0.123, "pipeline.usage.seconds": 1.25,
}

// documents returns files in all the layouts that people and tools write, by a short description.
func documents() map[string]string {
	fresh := string(taskdir.Render(taskdir.New{Name: "auth", Created: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}))
	var compact bytes.Buffer
	json.Compact(&compact, []byte(fresh))
	return map[string]string{
		"fresh":           fresh,
		"no newline":      strings.TrimSuffix(fresh, "\n"),
		"compact":         compact.String(),
		"crlf":            strings.ReplaceAll(fresh, "\n", "\r\n"),
		"tabs":            strings.ReplaceAll(fresh, "  ", "\t"),
		"four":            strings.ReplaceAll(fresh, "  ", "    "),
		"mark":            "\ufeff" + fresh,
		"status only":     `{"status": "ready"}`,
		"status lines":    "{\n  \"status\": \"ready\"\n}\n",
		"nothing":         "{}",
		"nothing wide":    "\n { \n } \n",
		"null pipeline":   "{\n  \"pipeline\": null,\n  \"status\": \"ready\"\n}\n",
		"empty pipeline":  `{"status": "ready", "pipeline": {}, "z": {}}`,
		"dense pipeline":  "{\n  \"status\": \"ready\",\n  \"pipeline\": {\"revision\": 1, \"failure\": {\"x\": 1}, \"verify\": [\"a\"]},\n  \"after\": [1,  2]\n}",
		"strange keys":    `{"pipeline.phase": 1, "a.b": {"*": [1.10, 1e3, 12345678901234567890123]}, "": "", "#": "\u00e9\/", "status": "ready", "@this": null, "meta": {"a|b": "\ud83d\ude00"}}`,
		"hidden keys":     `{"st\u0061tus": "ready", "pip\u0065line": {"ph\u0061se": "x"}}`,
		"brackets inside": `{"title": "}]{[\"\\", "notes": "\"pipeline\": {", "status": "ready"}`,
	}
}

// span returns the byte offsets of the value at path. It uses the decoder of encoding/json, independent of that of edits.
func span(t testing.TB, doc []byte, path string) (begin, end int, ok bool) {
	t.Helper()
	keys := strings.Split(path, ".")
	d := json.NewDecoder(bytes.NewReader(doc))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		end := int(d.InputOffset())
		begin := end - len(raw)
		if key != keys[0] {
			continue
		}
		if len(keys) == 1 {
			return begin, end, true
		}
		if raw[0] != '{' {
			return 0, 0, false
		}
		b, e, ok := span(t, raw, strings.Join(keys[1:], "."))
		return begin + b, begin + e, ok
	}
	if _, err := d.Token(); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return 0, 0, false
}

// setOne sets one field of doc and fails the test if anything else changed.
func setOne(t testing.TB, doc []byte, field string, value any) []byte {
	t.Helper()
	task, err := taskdir.Parse("task.json", doc)
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	got, err := taskdir.Edited(task, func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.KeepRevision()
		e.Set(field, value)
		return nil
	})
	if err != nil {
		t.Fatalf("setting %s in %s: %v", field, doc, err)
	}
	checkOnlyField(t, bytes.TrimPrefix(doc, []byte("\ufeff")), bytes.TrimPrefix(got, []byte("\ufeff")), field, value)
	if mark := []byte("\ufeff"); bytes.HasPrefix(doc, mark) != bytes.HasPrefix(got, mark) {
		t.Errorf("setting %s: the byte order mark came or went", field)
	}
	return got
}

func checkOnlyField(t testing.TB, doc, got []byte, field string, value any) {
	t.Helper()
	if !json.Valid(got) {
		t.Fatalf("setting %s in\n%s\ngave\n%s", field, doc, got)
	}
	begin, end, ok := span(t, got, field)
	if !ok {
		t.Fatalf("setting %s in\n%s\ngave no value:\n%s", field, doc, got)
	}
	want, _ := json.Marshal(value)
	if !holds(t, got[begin:end], want) {
		t.Errorf("setting %s: got %s, want %s", field, got[begin:end], want)
	}
	if b, e, was := span(t, doc, field); was && doc[b] != '{' {
		if string(doc[:b]) != string(got[:begin]) || string(doc[e:]) != string(got[end:]) {
			t.Errorf("setting %s changed other bytes:\n%s\n%s", field, doc, got)
		}
		return
	}
	if !inserted(doc, got) {
		b, e, was := span(t, doc, strings.Split(field, ".")[0])
		if !was || string(doc[b:e]) != "null" || !inserted(append(doc[:b:b], doc[e:]...), got) { // null became an object
			t.Errorf("setting %s changed bytes that were there:\n%s\n%s", field, doc, got)
		}
	}
}

// holds reports whether got is want, or an object with at least its members.
func holds(t testing.TB, got, want []byte) bool {
	t.Helper()
	var g, w any
	for raw, v := range map[*any][]byte{&g: got, &w: want} {
		d := json.NewDecoder(bytes.NewReader(v))
		d.UseNumber()
		if err := d.Decode(raw); err != nil {
			t.Fatalf("%s: %v", v, err)
		}
	}
	gm, isMap := g.(map[string]any)
	wm, wantMap := w.(map[string]any)
	if !isMap || !wantMap {
		return reflect.DeepEqual(g, w)
	}
	for key := range wm {
		if !reflect.DeepEqual(gm[key], wm[key]) {
			return false
		}
	}
	return true
}

// inserted reports whether got is doc with bytes inserted at one place.
func inserted(doc, got []byte) bool {
	i := 0
	for i < len(doc) && i < len(got) && doc[i] == got[i] {
		i++
	}
	return len(got) >= len(doc) && bytes.HasSuffix(got, doc[i:])
}

func TestSetChangesOneFieldOnly(t *testing.T) {
	for name, doc := range documents() {
		t.Run(name, func(t *testing.T) {
			for field, value := range newValues {
				setOne(t, []byte(doc), field, value)
			}
		})
	}
}

func TestSetChangesOneFieldOfTheCorpusOnly(t *testing.T) {
	for path, doc := range corpus(t) {
		task, err := taskdir.Parse(path, doc)
		if err != nil {
			continue
		}
		for field, value := range newValues {
			if field == "status" && task.Status == trellis.Completed {
				continue
			}
			setOne(t, doc, field, value)
		}
	}
}

// Setting all fields one after the other, in any order, keeps each value that was set before.
func TestSetManyFields(t *testing.T) {
	for name, doc := range documents() {
		data := []byte(doc)
		var fields []string
		for field := range newValues {
			fields = append(fields, field)
		}
		rand.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		for _, field := range fields {
			data = setOne(t, data, field, newValues[field])
		}
		for field, value := range newValues {
			begin, end, ok := span(t, bytes.TrimPrefix(data, []byte("\ufeff")), field)
			want, _ := json.Marshal(value)
			if got := bytes.TrimPrefix(data, []byte("\ufeff"))[begin:end]; !ok || !holds(t, got, want) {
				t.Errorf("%s: %s: got %s, want %s", name, field, got, want)
			}
		}
		if again := setOne(t, data, "title", newValues["title"]); string(again) != string(data) {
			t.Errorf("%s: setting the same again changed something", name)
		}
	}
}

func TestSetLayout(t *testing.T) {
	tests := []struct {
		doc, field string
		value      any
		want       string
	}{
		{`{"status": "ready"}`, "pipeline.phase", "check", `{"status": "ready", "pipeline": {"schema_version": 1, "phase": "check"}}`},
		{"{\n  \"status\": \"ready\"\n}\n", "pipeline.phase", "check", "{\n  \"status\": \"ready\",\n  \"pipeline\": {\n    \"schema_version\": 1,\n    \"phase\": \"check\"\n  }\n}\n"},
		{"{\n  \"status\": \"ready\"\n}\n", "title", "t", "{\n  \"title\": \"t\",\n  \"status\": \"ready\"\n}\n"},
		{"{\n\t\"title\": \"t\",\n\t\"x\": 1\n}\n", "branch", "b", "{\n\t\"title\": \"t\",\n\t\"branch\": \"b\",\n\t\"x\": 1\n}\n"},
		{"{\r\n  \"title\": \"t\"\r\n}", "children", []string{"a", "b"}, "{\r\n  \"title\": \"t\",\r\n  \"children\": [\r\n    \"a\",\r\n    \"b\"\r\n  ]\r\n}"},
		{"{\n  \"children\": []\n}", "children", []string{"a"}, "{\n  \"children\": [\n    \"a\"\n  ]\n}"},
		{"{\n  \"children\": [\"a\"]\n}", "children", []string{"a", "b"}, "{\n  \"children\": [\"a\", \"b\"]\n}"},
		{"{\n  \"pipeline\": {\"failure\": {\"mine\": 1, \"code\": \"x\"}}\n}", "pipeline.failure", taskdir.Failure{Code: trellis.Conflict},
			"{\n  \"pipeline\": {\"failure\": {\"mine\": 1, \"code\": \"conflict\", \"detail\": \"\", \"retryable\": false, \"at\": \"\"}}\n}"},
		{"{}", "title", "t", "{\n  \"title\": \"t\"\n}"},
		{`{"branch": "b"}`, "branch", "", `{"branch": null}`},
		{`{"notes": "b"}`, "notes", "", `{"notes": ""}`},
		{`{"pipeline": {"resume_at": "2026-01-01T00:00:00Z"}}`, "pipeline.resume_at", time.Time{}, `{"pipeline": {"resume_at": null}}`},
		{`{"pipeline": {"judge": null}}`, "pipeline.judge", &taskdir.Judge{Feedback: "a<b"}, `{"pipeline": {"judge": {"pass": false, "feedback": "a<b"}}}`},
		{`{"pipeline": {"usage": {"cost_usd": 1}}}`, "pipeline.usage.cost_usd", (*float64)(nil), `{"pipeline": {"usage": {"cost_usd": null}}}`},
		{`{"children": ["a"]}`, "children", []string(nil), `{"children": []}`},
		{`{"title": "caf\u00e9"}`, "title", "café", `{"title": "caf\u00e9"}`},
	}
	for _, test := range tests {
		got, err := taskdir.Edited(parse(t, test.doc), func(_ *taskdir.Task, e *taskdir.Edit) error {
			e.KeepRevision()
			e.Set(test.field, test.value)
			return nil
		})
		if err != nil || string(got) != test.want {
			t.Errorf("setting %s in\n%s\ngot\n%s (%v)\nwant\n%s", test.field, test.doc, got, err, test.want)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	tests := []struct {
		doc, field string
		value      any
		want       string
	}{
		{`{}`, "titel", "t", `task.json has no field "titel"`},
		{`{}`, "pipeline.fase", "t", `task.json has no field "pipeline.fase"`},
		{`{}`, "pipeline.#", "t", `task.json has no field`},
		{`{}`, "", "t", `task.json has no field`},
		{`{}`, "title", 5, "a number given where text belongs"},
		{`{}`, "children", "c", "text given where a list belongs"},
		{`{"pipeline": [1]}`, "pipeline.phase", "x", `"pipeline" is a list, it must be an object`},
		{`{"meta": {"a": 1}}`, "meta", map[string]any{"a.b": 1}, `the key "a.b" can't be in a path`},
		{`{"status": "wip"}`, "status", "ready", `unknown status "wip"`},
		{`{}`, "status", "wip", `unknown status "wip"`},
	}
	for _, test := range tests {
		_, err := taskdir.Edited(parse(t, test.doc), func(_ *taskdir.Task, e *taskdir.Edit) error {
			e.Set(test.field, test.value)
			e.Set("notes", "later changes do nothing")
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("setting %q in %s: got %v, want %q", test.field, test.doc, err, test.want)
		}
	}
}

func TestSetStatus(t *testing.T) {
	set := func(doc string, to trellis.Status) error {
		_, err := taskdir.Edited(parse(t, doc), func(_ *taskdir.Task, e *taskdir.Edit) error {
			e.Set("status", to)
			return nil
		})
		return err
	}
	for _, from := range trellis.Statuses {
		for _, to := range trellis.Statuses {
			var move *trellis.MoveError
			err := set(fmt.Sprintf(`{"status": %q}`, from), to)
			if want := trellis.Move(from, to); (err == nil) != (want == nil) || err != nil && !errors.As(err, &move) {
				t.Errorf("%s to %s: got %v, want %v", from, to, err, want)
			}
			err = set(fmt.Sprintf(`{"status": %q, "children": ["02-01-a"]}`, from), to)
			if byLastChild := to == trellis.Completed && from != trellis.Cancelled; byLastChild && err != nil {
				t.Errorf("a parent from %s to %s: got %v", from, to, err)
			}
		}
	}
	if err := set(`{"status": "done"}`, trellis.Ready); err == nil {
		t.Error("done to ready: got no error, want that of a completed task")
	}
}

func FuzzSet(f *testing.F) {
	for _, doc := range documents() {
		f.Add(doc, uint8(len(doc)), "text")
	}
	var fields []string
	for field, value := range newValues {
		if _, ok := value.(string); ok && field != "status" {
			fields = append(fields, field)
		}
	}
	f.Fuzz(func(t *testing.T, doc string, pick uint8, value string) {
		task, err := taskdir.Parse("task.json", []byte(doc))
		if err != nil {
			t.Skip("what is not a task.json is never changed")
		}
		field := fields[int(pick)%len(fields)]
		value = "v" + strings.ToValidUTF8(value, "")
		if _, err := taskdir.Edited(task, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set(field, value); return nil }); err != nil {
			if len(task.Problems) == 0 {
				t.Errorf("setting %s in %s: %v", field, doc, err)
			}
			return // a parent of the field has the wrong type
		}
		setOne(t, []byte(doc), field, value)
	})
}

// SetFromJournal sets the status of a run over any status in the file, such as one that an editor saved from an old buffer.
func TestProjectIsNotCheckedAgainstTheTable(t *testing.T) {
	for _, doc := range []string{`{"status": "completed"}`, `{"status": "wip"}`, `{}`} {
		got, err := taskdir.Edited(parse(t, doc), func(_ *taskdir.Task, e *taskdir.Edit) error {
			e.SetFromJournal(trellis.InProgress)
			return nil
		})
		if err != nil || parse(t, string(got)).Status != trellis.InProgress || parse(t, string(got)).Pipeline.Revision != 1 {
			t.Errorf("%s: got %s %v, want in_progress with a new revision", doc, got, err)
		}
	}
}
