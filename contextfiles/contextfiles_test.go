package contextfiles_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// write makes a file, and the folders above it, below root.
func write(t testing.TB, root, name, content string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, root, name, target string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(root, filepath.FromSlash(name))); err != nil {
		t.Fatal(err)
	}
}

// said returns problems as text, one a line.
func said(problems []trellis.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		if p.Warning {
			b.WriteString("warning: ")
		}
		b.WriteString(p.Error() + "\n")
	}
	return b.String()
}

func TestParse(t *testing.T) {
	data := "\ufeff" + `{"file": "a.md", "reason": "why", "owner": {"x": 1.0}}` + "\r\n" +
		"\r\n" +
		`{"_example": "put {\"file\": …} here"}` + "\n" +
		`  {"path": "b/", "type": "directory"}` + "\n" +
		"   \n" +
		`{"file": "c.md", "path": "not this", "_example": "kept by mistake"}` + "\n" +
		`{"file": "d.md", "owner": {"file": "x", "file": "y"}, "owner": 1}`
	rows, problems := contextfiles.Parse("implement.jsonl", []byte(data))
	if got := said(problems); got != "" {
		t.Fatalf("problems: %s", got)
	}
	want := []contextfiles.Row{
		{Line: 1, Path: "a.md", Reason: "why", Type: contextfiles.File, Raw: []byte(`{"file": "a.md", "reason": "why", "owner": {"x": 1.0}}`)},
		{Line: 4, Path: "b/", Type: contextfiles.Directory, Raw: []byte(`  {"path": "b/", "type": "directory"}`)},
		{Line: 6, Path: "c.md", Type: contextfiles.File, Unread: "not this", Raw: []byte(`{"file": "c.md", "path": "not this", "_example": "kept by mistake"}`)},
		{Line: 7, Path: "d.md", Type: contextfiles.File, Raw: []byte(`{"file": "d.md", "owner": {"file": "x", "file": "y"}, "owner": 1}`)},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got %+v\nwant %+v", rows, want)
	}
}

func TestParseNamesBadLines(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`{"file": "a.md", "rea`, "c.jsonl:2:21: not one whole JSON object: unexpected end of JSON input"},
		{`{"file": "a.md"} {"file": "b.md"}`, "c.jsonl:2:18: not one whole JSON object: invalid character '{' after top-level value"},
		{"{\n\"file\": \"a.md\"\n}", "c.jsonl:2: this row spans 3 lines: write it on one"},
		{`{"file": "a.md"}, `, "c.jsonl:2:17: there is a comma behind the object"},
		{`["a.md"]`, "c.jsonl:2: not a JSON object, but array"},
		{`"a.md"`, "c.jsonl:2: not a JSON object, but string"},
		{`null`, "c.jsonl:2: not a JSON object, but null"},
		{`a.md`, "c.jsonl:2:1: not one whole JSON object: invalid character 'a' looking for beginning of value"},
		{`{}`, `c.jsonl:2: names no file: expected {"file": "path", "reason": "why"}`},
		{`{"File": "a.md"}`, `c.jsonl:2: names no file: expected {"file": "path", "reason": "why"}`},
		{`{"file": 3}`, `c.jsonl:2: "file" is not a string`},
		{`{"file": "a.md", "reason": ["x"]}`, `c.jsonl:2: "reason" is not a string`},
		{`{"file": "a.md", "file": "b.md"}`, `c.jsonl:2:18: "file" appears twice in this row`},
		{`{"reason": "x", "file": "a.md", "re\u0061son" : "x"}`, `c.jsonl:2:33: "reason" appears twice in this row`},
		{`{"file": "a.md", "type": "folder"}`, `c.jsonl:2: unknown type "folder" ("directory", or none for a file)`},
	} {
		rows, problems := contextfiles.Parse("c.jsonl", []byte("{\"file\": \"x\"}\n"+tt.line+"\n{\"file\": \"y\"}"))
		if got := strings.TrimSuffix(said(problems), "\n"); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.line, got, tt.want)
		}
		if len(rows) != 2 || rows[1].Line != 3+strings.Count(tt.line, "\n") {
			t.Errorf("%s: the lines around it gave %+v", tt.line, rows)
		}
	}
}

func TestProblemsNameTheCommandThatMends(t *testing.T) {
	_, problems := contextfiles.Parse(".trellis/tasks/02-01-it's/check.jsonl", []byte("x"))
	if got, want := problems[0].Hint, `trellis validate '.trellis/tasks/02-01-it'\''s' --fix`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, problems = contextfiles.Parse("check.jsonl", []byte("x"))
	if got := problems[0].Hint; got != "" {
		t.Errorf("got %s for a file of no known task", got)
	}
}

func TestRender(t *testing.T) {
	rows := []contextfiles.Row{
		{Path: "a.md", Reason: `<&> "quoted" é`},
		{Path: "docs", Type: contextfiles.Directory, Reason: "the\nformat"},
		{Path: "changed.md", Raw: []byte(`{"file":"read.md","mine":1}`)},
	}
	want := `{"file": "a.md", "reason": "<&> \"quoted\" é"}
{"file": "docs/", "type": "directory", "reason": "the\nformat"}
{"file":"read.md","mine":1}
`
	data := contextfiles.Render(rows)
	if got := string(data); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, problems := contextfiles.Parse("", data)
	if len(problems) > 0 || len(again) != 3 || again[1].Path != "docs/" || again[1].Reason != "the\nformat" {
		t.Errorf("read again: %+v %v", again, problems)
	}
}

func TestAdd(t *testing.T) {
	row := contextfiles.Row{Path: "./docs//b.md", Reason: "why"}
	const line = `{"file": "docs/b.md", "reason": "why"}`
	for _, tt := range []struct{ name, data, want string }{
		{"empty", "", line + "\n"},
		{"ended", "{\"file\":\"a\"}\n", "{\"file\":\"a\"}\n" + line + "\n"},
		{"not ended", `{"file":"a"}`, "{\"file\":\"a\"}\n" + line + "\n"},
		{"torn", `{"file":"a`, "{\"file\":\"a\n" + line + "\n"},
		{"CRLF", "{\"file\":\"a\"}\r\n{\"file\":\"c\"}", "{\"file\":\"a\"}\r\n{\"file\":\"c\"}\r\n" + line + "\r\n"},
		{"seed", "{\"_example\":\"\"}\n", "{\"_example\":\"\"}\n" + line + "\n"},
	} {
		got, err := contextfiles.Add([]byte(tt.data), row)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %q, %v\nwant %q", tt.name, got, err, tt.want)
		}
	}
	data := []byte(`{"path":"docs/b.md"}`)
	if _, err := contextfiles.Add(data, row); !errors.Is(err, contextfiles.ErrDuplicate) {
		t.Errorf("the same path again: %v", err)
	}
	for _, p := range []string{"", "/etc/passwd", "../x", "a/../../x", `a\b`, "C:/x", ".git/config", "a\nb"} {
		if _, err := contextfiles.Add(nil, contextfiles.Row{Path: p}); err == nil {
			t.Errorf("added %q", p)
		}
	}
}

func TestCorpus(t *testing.T) {
	corpus := os.Getenv("TRELLIS_CORPUS")
	if corpus == "" {
		t.Skip("TRELLIS_CORPUS is not set: no task directories by others to read")
	}
	files, err := filepath.Glob(filepath.Join(corpus, "tasks", "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no context files in %s: %v", corpus, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		rows, problems := contextfiles.Parse(f, data)
		if len(problems) > 0 {
			t.Errorf("%s: %s", f, said(problems))
		}
		if want := strings.Count(string(data), `"file":`); len(rows) != want {
			t.Errorf("%s: got %d rows, want %d", f, len(rows), want)
		}
	}
}
