package agentstest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// reading returns a request of a role that reads, in dir.
func reading(t *testing.T, dir string) agents.Request {
	t.Helper()
	return agents.Request{Role: trellis.Research, Prompt: "look around", Dir: dir, Permission: trellis.PermitRead, RunDir: t.TempDir(),
		Limits: agents.Limits{Wall: agentstest.Hang}}
}

// shown returns what a model gets to see for its calls, and fails if the protocols differ in that.
func shown(t *testing.T, dir string, calls ...modelserver.Call) (results []string) {
	t.Helper()
	for api := range wires {
		server := serve(t, modelserver.Play(modelserver.Turn{Calls: calls}, modelserver.Turn{Text: agentstest.Text}))
		res, err := direct(t, api, server.URL).Run(t.Context(), reading(t, dir), nil)
		if err != nil || res.ToolCalls != len(calls) {
			t.Fatalf("%s: got %+v, %v", api, res, err)
		}
		requests := server.Requests()
		got := requests[len(requests)-1].ToolResults
		if results != nil && strings.Join(results, "|") != strings.Join(got, "|") {
			t.Errorf("the protocols differ: got %q and %q", results, got)
		}
		results = got
	}
	return results
}

// project returns a folder with files that may be read, and with files in it and around it that must not be.
func project(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "project")
	for name, text := range map[string]string{
		"../outside.txt":    "treasure",
		".git/config":       "treasure",
		"sub/.git":          "gitdir: treasure",
		"main.go":           "package main\n\nfunc main() {}\n",
		"cmd/tool/tool.go":  "package tool\n// needle here\n",
		"docs/guide.md":     "# Guide\nno Needle\r\nlast",
		"blob.bin":          "needle\x00\x01",
		"latin.txt":         "caf\xe9 needle\n",
		"long.txt":          strings.Repeat("x", 9000) + "needle" + strings.Repeat("y", 9000) + "\n",
		"many.txt":          strings.Repeat("line\n", 30_000),
		"node_modules/x.js": "needle",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, path, text, 0o600)
	}
	huge := filepath.Join(dir, "huge.txt")
	put(t, huge, "needle", 0o600)
	if err := os.Truncate(huge, 100<<20); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"out": "../outside.txt", "abs": filepath.Join(top, "outside.txt"), "up": "..", "git": ".git", "conf": ".git/config", "deep": "git/config",
		"loop": "loop", "alias": "docs/guide.md", "docs/back": "../main.go",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestToolsStayInTheFolder(t *testing.T) {
	dir := project(t)
	for _, path := range []string{
		"../outside.txt", "..", "cmd/../../outside.txt", filepath.Join(filepath.Dir(dir), "outside.txt"), "/etc/hostname", "out", "abs", "up/outside.txt", "up/project/main.go",
		".git/config", "./.git/config", ".GIT/config", "cmd/../.git/config", "sub/.git", "git/config", "conf", "deep", "loop", "loop/x", "", ".", "cmd", "none.go", "huge.txt", "blob.bin", "main.go/x",
	} {
		got := shown(t, dir, read(path))[0]
		if strings.Contains(got, "treasure") || strings.Contains(got, "package main") || strings.Contains(got, filepath.Dir(dir)) {
			t.Errorf("%q: got %.200q", path, got)
		}
	}
	for _, glob := range []string{"..", "../*", "/**", "out", "up/**", ".git", ".git/**", "**/config", "git/**", "sub/**", "**/.git"} {
		got := shown(t, dir, modelserver.Call{Tool: "list_files", Input: map[string]any{"glob": glob}}, modelserver.Call{Tool: "search", Input: map[string]any{"text": "treasure", "glob": glob}})
		if got[0] != "(no files)" && got[0] != "(no files)\n" || !strings.Contains(got[1], "(nothing found)") {
			t.Errorf("glob %q: got %q", glob, got)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := project(t)
	for _, tt := range []struct {
		input map[string]any
		want  string
	}{
		{map[string]any{"path": "main.go"}, "1\tpackage main\n2\t\n3\tfunc main() {}\n"},
		{map[string]any{"path": filepath.Join(dir, "main.go"), "offset": 3}, "3\tfunc main() {}\n"},
		{map[string]any{"path": "docs/guide.md", "offset": 2, "limit": 1}, "2\tno Needle\n"},
		{map[string]any{"path": "./docs//guide.md", "offset": 3, "limit": 9}, "3\tlast\n"},
		{map[string]any{"path": "alias", "limit": 1}, "1\t# Guide\n"},
		{map[string]any{"path": "docs/back", "limit": 1}, "1\tpackage main\n"},
		{map[string]any{"path": "main.go", "offset": 99}, "(main.go has 3 lines)"},
		{map[string]any{"path": "latin.txt"}, "1\tcaf\uFFFD needle\n"},
		{map[string]any{"path": "none.go"}, "there is no none.go"},
		{map[string]any{"path": "cmd"}, "cmd is a folder: list_files shows what is in it"},
		{map[string]any{"path": "blob.bin"}, "blob.bin is not text"},
		{map[string]any{"path": "huge.txt"}, "huge.txt has 104857600 bytes, which is too much"},
	} {
		if got := shown(t, dir, modelserver.Call{Tool: "read_file", Input: tt.input})[0]; got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.input, got, tt.want)
		}
	}
	if got := shown(t, dir, modelserver.Call{Tool: "read_file", Input: map[string]any{"path": 7}})[0]; !strings.Contains(got, "the input is wrong") {
		t.Errorf("a path that is a number: got %q", got)
	}
	if got := shown(t, dir, read("many.txt"))[0]; len(got) > 64<<10 || !strings.Contains(got, "more lines: continue with offset ") {
		t.Errorf("many lines: got %d bytes that end with %q", len(got), got[len(got)-80:])
	}
	if got := shown(t, dir, read("long.txt"))[0]; len(got) > 4<<10 || !strings.Contains(got, "bytes more") {
		t.Errorf("a long line: got %d bytes", len(got))
	}
}

func TestListAndSearch(t *testing.T) {
	dir := project(t)
	find := func(tool string, input map[string]any) string {
		return shown(t, dir, modelserver.Call{Tool: tool, Input: input})[0]
	}
	all := "blob.bin\ncmd/tool/tool.go\ndocs/guide.md\nhuge.txt\nlatin.txt\nlong.txt\nmain.go\nmany.txt\n"
	for glob, want := range map[string]string{
		"": all, ".": all, "*.go": "cmd/tool/tool.go\nmain.go\n", "./main.go": "main.go\n", "cmd": "cmd/tool/tool.go\n", "cmd/": "cmd/tool/tool.go\n",
		"cmd/**/*.go": "cmd/tool/tool.go\n", "cmd/*.go": "(no files)", "{docs,cmd}/**": "cmd/tool/tool.go\ndocs/guide.md\n", "[": `"[" is not a glob`,
	} {
		if got := find("list_files", map[string]any{"glob": glob}); got != want {
			t.Errorf("list %q: got %q, want %q", glob, got, want)
		}
	}
	for _, tt := range []struct {
		input map[string]any
		want  string
	}{
		{map[string]any{"text": "needle", "glob": "*.go"}, "cmd/tool/tool.go:2: // needle here\n"},
		{map[string]any{"text": "needle", "glob": "docs", "ignore_case": true}, "docs/guide.md:2: no Needle\n"},
		{map[string]any{"text": "^func .*{}$", "regexp": true}, "main.go:3: func main() {}\n"},
		{map[string]any{"text": "main() {"}, "main.go:3: func main() {}\n"},
		{map[string]any{"text": "nowhere to be seen"}, "(nothing found)"},
		{map[string]any{"text": ""}, "text is empty"},
	} {
		if got := find("search", tt.input); got != tt.want {
			t.Errorf("search %v: got %q, want %q", tt.input, got, tt.want)
		}
	}
	if got := find("search", map[string]any{"text": "(", "regexp": true}); !strings.Contains(got, "not a regular expression") {
		t.Errorf("a broken expression: got %q", got)
	}
	if got := find("search", map[string]any{"text": "needle", "glob": "long.txt"}); len(got) > 1000 || !strings.Contains(got, "xneedley") {
		t.Errorf("a long line: got %d bytes", len(got))
	}
	if got := find("search", map[string]any{"text": "line"}); strings.Count(got, "\n") > 210 || !strings.Contains(got, "there is more") {
		t.Errorf("many hits: got %d lines", strings.Count(got, "\n"))
	}
}

// TestFilesOfGit: if the project lists its files, no others are listed or searched.
func TestFilesOfGit(t *testing.T) {
	dir := project(t)
	for name, listed := range map[string]func(context.Context, string) ([]string, error){
		"some": func(_ context.Context, d string) ([]string, error) {
			if d != dir {
				t.Errorf("asked for the files of %s", d)
			}
			return []string{"main.go", "git/config", "../outside.txt", ".git/config", "gone.go", "conf", "docs/back", "many.txt"}, nil
		},
		"none": func(context.Context, string) ([]string, error) { return nil, errors.New("not a work tree") },
	} {
		server := serve(t, modelserver.Play(modelserver.Turn{Calls: []modelserver.Call{{Tool: "list_files", Input: map[string]any{"glob": "*.go"}},
			{Tool: "search", Input: map[string]any{"text": "treasure|package", "regexp": true}}}}, modelserver.Turn{Text: agentstest.Text}))
		a, err := agents.New("mine", agents.Options{Files: listed,
			APIs: map[string]agents.API{"mine": {Kind: agents.Anthropic, Model: "mock-1", BaseURL: server.URL}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Run(t.Context(), reading(t, dir), nil); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(server.Requests()[1].ToolResults, "|")
		want := map[string]string{"some": "gone.go\nmain.go\n|main.go:1: package main\n",
			"none": "cmd/tool/tool.go\nmain.go\n|cmd/tool/tool.go:1: package tool\nmain.go:1: package main\n"}[name]
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestToolsWithoutEnd: a model that reads forever is stopped, after it was told to answer. The cases that fill a conversation of
// megabytes run with one protocol each, and with TRELLIS_SOAK with both: counting and stopping are the same for all.
func TestToolsWithoutEnd(t *testing.T) {
	t.Parallel()
	dir := project(t)
	for _, tt := range []struct {
		name string
		role trellis.Role
		call modelserver.Call
		want trellis.Code
		most int // the maximum number of requests
		by   string
	}{
		{"calls", trellis.Research, read("main.go"), trellis.AgentProtocol, 102, agents.Anthropic},
		{"bytes", trellis.Research, read("many.txt"), trellis.ContextOverflow, 30, agents.OpenAI},
		{"no tools", trellis.Judge, read("main.go"), trellis.AgentProtocol, 7, ""},
	} {
		for api := range wires {
			if tt.by != "" && tt.by != api && !soak.Asked() {
				continue
			}
			t.Run(tt.name+" "+api, func(t *testing.T) {
				t.Parallel()
				server := serve(t, modelserver.Play(modelserver.Turn{Calls: []modelserver.Call{tt.call}}))
				r := reading(t, dir)
				r.Role, r.Permission = tt.role, tt.role.Permission()
				_, err := direct(t, api, server.URL).Run(t.Context(), r, nil)
				if !errors.Is(err, &flow.Failure{Code: string(tt.want)}) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				all := server.Requests()
				if len(all) > tt.most {
					t.Errorf("the model was asked %d times", len(all))
				}
				offered, want := fmt.Sprint(all[0].Tools), "[read_file list_files search]"
				if tt.role == trellis.Judge {
					want = "[]"
				}
				if offered != want {
					t.Errorf("the tools on offer are %s, want %s", offered, want)
				}
				if told := strings.Contains(string(all[len(all)-1].Raw), `"tool_choice":`); told != (tt.role != trellis.Judge) {
					t.Errorf("the model was told that it has to answer: %v", told)
				}
			})
		}
	}
}

// TestRefusedCallsAreNoted: a call that the model may not make is reported; a file that is missing is not.
func TestRefusedCallsAreNoted(t *testing.T) {
	dir := project(t)
	for api := range wires {
		server := serve(t, modelserver.Play(
			modelserver.Turn{Text: " \n", Calls: []modelserver.Call{modelserver.Shell("true"), read(".git/config"), read("../outside.txt"), read("none.go")}},
			modelserver.Turn{Text: agentstest.Text}))
		var notices []string
		res, err := direct(t, api, server.URL).Run(t.Context(), reading(t, dir), func(e agents.Event) {
			if e.Kind == agents.EventNotice {
				notices = append(notices, e.Text)
			}
		})
		if err != nil || res.ToolCalls != 4 || len(notices) != 3 || !strings.Contains(notices[1], "read_file refused: .git") {
			t.Errorf("%s: got %+v, %v, notices %q", api, res, err, notices)
		}
		if again := string(server.Requests()[1].Raw); strings.Contains(again, `" \n"`) {
			t.Errorf("%s: a blank text is sent again: %s", api, again)
		}
	}
}
