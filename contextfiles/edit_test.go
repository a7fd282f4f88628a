package contextfiles_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/text"
)

func TestFix(t *testing.T) {
	data := "\r\n" +
		"{\"file\": \"a.md\",\t\"reason\": \"tab\", \"n\": 1.50}\r\n" +
		"{\"file\": \"../secret.md\"}\n" +
		"not json\n" +
		"{\"_example\": \"x\"}\n" +
		"\n" +
		"{\"file\": \"big.md\"}\n" +
		"{\"file\": \"a.md\"}\n" +
		"{\"file\": \"torn"
	fixed, mends := contextfiles.Fix("c", []byte(data), contextfiles.Checker{Root: repository(t)})
	want := "\r\n" +
		"{\"file\": \"a.md\",\t\"reason\": \"tab\", \"n\": 1.50}\r\n" +
		"{\"_example\": \"x\"}\n" +
		"\n" +
		"{\"file\": \"big.md\"}\n"
	if got := string(fixed); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if len(mends) != 4 || slices.ContainsFunc(mends, func(m contextfiles.Correction) bool { return m.Now != "" || m.Was == "" }) {
		t.Errorf("got %+v, want 4 dropped", mends)
	}
}

// The rows of a file that was saved in another encoding are not taken for invalid ones.
func TestFixLeavesAnotherEncoding(t *testing.T) {
	data := []byte("\xff\xfe{\x00}\x00\n\x00")
	for _, data := range [][]byte{data, data[2:]} { // with a byte order mark, and without
		if fixed, mends := contextfiles.Fix("c", data, contextfiles.Checker{Root: repository(t)}); !bytes.Equal(fixed, data) || len(mends) > 0 {
			t.Errorf("got %q, %v", fixed, mends)
		}
	}
	_, problems := contextfiles.Parse(".trellis/tasks/a/check.jsonl", []byte("{\"file\": \"a.md\"}\n{\"file\": \"caf\xe9.md\"}\n"))
	if got, want := said(problems), ".trellis/tasks/a/check.jsonl:2: is not UTF-8 text\n"; got != want || problems[0].Hint != "save the file as UTF-8" {
		t.Errorf("got %s, %v", got, problems)
	}
	if got, err := contextfiles.Add(data, contextfiles.Row{Path: "a.md"}); err == nil {
		t.Errorf("a row was added in another encoding: %q", got)
	}
}

// Fix repairs what is unambiguous, and does not lose the row that was meant.
func TestFixMends(t *testing.T) {
	root := repository(t)
	for _, tt := range []struct{ data, want string }{
		{`{"file": "docs", "reason": "docs", "n": 1.50}`, `{"file": "docs/", "type": "directory", "reason": "docs", "n": 1.50}`},
		{`{"type": "file", "path": "./docs/"}`, `{"type": "directory", "path": "docs/"}`},
		{`{"reason": "a.md/", "file": "a.md/"}`, `{"reason": "a.md/", "file": "a.md"}`},
		{`{"file": "a.md", "type": "directory"}`, `{"file": "a.md", "type": "file"}`},
		{`{"file": "docs\\one.md"}`, `{"file": "docs/one.md"}`},
		{`{"file": "` + root + `/docs/one.md"}`, `{"file": "docs/one.md"}`},
		{`{"file": "` + root + `/docs"}`, `{"file": "docs/", "type": "directory"}`},
		{`{"file":"a.md",}`, `{"file":"a.md"}`},
		{"{\"file\":\"a.md\", } ,\r\n{\"file\":\"docs/one.md\"},\n", "{\"file\":\"a.md\" }\r\n{\"file\":\"docs/one.md\"}\n"},
		{"\n{\n  \"file\": \"a.md\",\n  \"reason\": \"b\"\n},\n{\"file\": \"docs/one.md\"}\n", "\n{\"file\":\"a.md\",\"reason\":\"b\"}\n{\"file\": \"docs/one.md\"}\n"},
		// A row that repeats another one, or whose path can't be used, is dropped.
		{"{\"file\": \"a.md\",}\n{\"file\": \"a.md\", \"reason\": \"kept\"}", `{"file": "a.md", "reason": "kept"}`},
		{"{\"file\": \"docs\"}\n{\"file\": \"./docs\"}\n", "{\"file\": \"docs/\", \"type\": \"directory\"}\n"},
		{`{"file": "none.md",}`, ""},
		{`{"file": "/etc/passwd"}`, ""},
		{`{"file": "etc"}`, ""},
		{`{"file": "..\\secret.md"}`, ""},
		{"{\n\"reason\": [\n{\"file\": \"a.md\"}\n]}", `{"file": "a.md"}` + "\n"},
	} {
		fixed, mends := contextfiles.Fix("c", []byte(tt.data), contextfiles.Checker{Root: root})
		if string(fixed) != tt.want || len(mends) == 0 {
			t.Errorf("%s\n got %s\nwant %s", tt.data, fixed, tt.want)
		}
	}
}

func TestFixWithoutRepositoryDropsNothing(t *testing.T) {
	data := []byte("{\"file\": \"a.md\"}\n")
	fixed, mends := contextfiles.Fix("c", data, contextfiles.Checker{Root: filepath.Join(t.TempDir(), "none")})
	if !bytes.Equal(fixed, data) || len(mends) != 1 || mends[0].Problem.Line != 0 {
		t.Errorf("got %q, %v", fixed, mends)
	}
}

// Whatever a context file contains, each line of the fixed file was in it, byte for byte and in the same order, or is reported as
// a mend; every usable row is kept, and nothing is left to mend.
func FuzzFix(f *testing.F) {
	for _, s := range []string{
		"", "\n", "\r\n\r\n", "{\"file\": \"a.md\"}", "{\"file\": \"a.md\", \"x\": 1e400}\r\n{\"file\": \"a.md\"}\n",
		"\ufeff{\"path\": \"docs/\", \"type\": \"directory\"}\n{\"file\": \"out.md\"}\n[]\nnull\n{",
		"{\"file\": \"docs/climb/secret.md\"}\n{\"_example\": 3}\n{\"file\": \"etc/passwd\"}",
		"{\"file\": \"docs\"},\n{\n\"file\": \"a.md\"\n},\n{\"file\": \"a.md\",}\n",
	} {
		f.Add([]byte(s))
	}
	c := contextfiles.Checker{Root: repository(f)}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !text.Valid(data) {
			return // left as it is
		}
		fixed, mends := contextfiles.Fix("c", data, c)
		rest := bytes.SplitAfter(data, []byte("\n"))
		for _, line := range bytes.SplitAfter(fixed, []byte("\n")) {
			if slices.ContainsFunc(mends, func(m contextfiles.Correction) bool { return m.Now == strings.TrimRight(string(line), "\r\n") }) {
				continue
			}
			for len(rest) > 0 && !bytes.Equal(rest[0], line) {
				rest = rest[1:]
			}
			if len(rest) == 0 && len(line) > 0 {
				t.Fatalf("line %q of %q is not in %q", line, fixed, data)
			}
			if len(line) > 0 {
				rest = rest[1:]
			}
		}
		before, _ := contextfiles.Parse("c", data)
		before, _ = c.Check("c", before)
		after, problems := contextfiles.Parse("c", fixed)
		after, found := c.Check("c", after)
		for _, p := range append(problems, found...) {
			if !p.Warning {
				t.Fatalf("%q still has: %s", fixed, p.Error())
			}
		}
		for _, row := range before {
			if !slices.ContainsFunc(after, func(r contextfiles.Row) bool { return bytes.Equal(r.Raw, row.Raw) }) {
				t.Fatalf("the row %s is lost: %q", row.Raw, fixed)
			}
		}
	})
}

// No path that is accepted leads out of the repository, as the operating system resolves symlinks, and no path that is refused
// is opened for a prompt.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		"a.md", "out.md", "docs/up/a.md", "docs/up/docs/up/a.md", "docs/climb/secret.md", "docs/climb/repo/a.md", "chain/secret.md", "away/x.md", "etc/passwd",
		"absolute.md", "loop", "dangling.md", "../secret.md", "a/../../secret.md", "/etc/passwd", "//etc/passwd", "./../secret.md", `..\secret.md`, "docs/./climb/./secret.md",
		".git/config", ".GIT/config", "docs/up/.git/config", "", ".", "..", "a.md/", "\x00", "a.md\x00", "...", "....//secret.md",
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	root := repository(f)
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string, dir bool) {
		row := contextfiles.Row{Path: path, Type: contextfiles.File}
		if dir {
			row.Type = contextfiles.Directory
		}
		text, _ := contextfiles.Assemble(contextfiles.Source{Main: root}, []contextfiles.Row{row}, contextfiles.DefaultCaps())
		if strings.Contains(text, "outside") || strings.Contains(text, "root:") {
			t.Fatalf("%q shows what lies outside:\n%s", path, text)
		}
		valid, problems := contextfiles.Checker{Root: root}.Check("c", []contextfiles.Row{row})
		if len(valid) == 0 {
			if len(problems) == 0 {
				t.Fatalf("%q was refused without a word", path)
			}
			return
		}
		at, err := filepath.EvalSymlinks(filepath.Join(root, valid[0].Path))
		if err != nil {
			t.Fatalf("%q was accepted: %v", path, err)
		}
		if at != real && !strings.HasPrefix(at, real+"/") {
			t.Fatalf("%q was accepted and is %s", path, at)
		}
		if _, err := json.Marshal(valid[0].Path); err != nil || strings.ContainsAny(valid[0].Path, "\n\r") {
			t.Fatalf("%q was accepted as %q", path, valid[0].Path)
		}
	})
}
