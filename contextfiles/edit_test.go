package contextfiles_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/contextfiles"
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
	fixed, dropped := contextfiles.Fix("c", []byte(data), contextfiles.Checker{Root: repository(t)})
	want := "\r\n" +
		"{\"file\": \"a.md\",\t\"reason\": \"tab\", \"n\": 1.50}\r\n" +
		"{\"_example\": \"x\"}\n" +
		"\n" +
		"{\"file\": \"big.md\"}\n"
	if got := string(fixed); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if got := len(dropped); got != 4 {
		t.Errorf("got %d dropped, want 4: %s", got, said(dropped))
	}
}

func TestFixWithoutRepositoryDropsNothing(t *testing.T) {
	data := []byte("{\"file\": \"a.md\"}\n")
	fixed, problems := contextfiles.Fix("c", data, contextfiles.Checker{Root: filepath.Join(t.TempDir(), "none")})
	if !bytes.Equal(fixed, data) || len(problems) != 1 || problems[0].Line != 0 {
		t.Errorf("got %q, %v", fixed, problems)
	}
}

// Whatever stands in a context file, mending it leaves lines that were in it, byte for byte and in
// their order, keeps every row that can be used, and leaves nothing to mend.
func FuzzFix(f *testing.F) {
	for _, s := range []string{
		"", "\n", "\r\n\r\n", "{\"file\": \"a.md\"}", "{\"file\": \"a.md\", \"x\": 1e400}\r\n{\"file\": \"a.md\"}\n",
		"\ufeff{\"path\": \"docs/\", \"type\": \"directory\"}\n{\"file\": \"out.md\"}\n[]\nnull\n{",
		"{\"file\": \"docs/climb/secret.md\"}\n{\"_example\": 3}\n{\"file\": \"etc/passwd\"}",
	} {
		f.Add([]byte(s))
	}
	c := contextfiles.Checker{Root: repository(f)}
	f.Fuzz(func(t *testing.T, data []byte) {
		fixed, dropped := contextfiles.Fix("c", data, c)
		rest := bytes.SplitAfter(data, []byte("\n"))
		kept := 0
		for _, line := range bytes.SplitAfter(fixed, []byte("\n")) {
			for len(rest) > 0 && !bytes.Equal(rest[0], line) {
				rest = rest[1:]
			}
			if len(rest) == 0 && len(line) > 0 {
				t.Fatalf("line %q of %q is not in %q", line, fixed, data)
			}
			if len(line) > 0 {
				rest = rest[1:]
				kept++
			}
		}
		if got, want := kept, countLines(data)-len(dropped); got != want {
			t.Fatalf("kept %d lines of %q, want %d", got, data, want)
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
		if got, want := paths(after), paths(before); got != want {
			t.Fatalf("usable rows: got %s, want %s", got, want)
		}
	})
}

func countLines(data []byte) int {
	n := bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		n++
	}
	return n
}

func paths(rows []contextfiles.Row) string {
	var list []string
	for _, r := range rows {
		list = append(list, r.Path)
	}
	return strings.Join(list, " ")
}

// No path that is accepted leads out of the repository, by the system's own account of symlinks, and
// none that is refused is opened for a prompt.
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
