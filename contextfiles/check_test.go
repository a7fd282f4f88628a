package contextfiles_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/contextfiles"
)

// repository makes files, folders and symlinks of every kind, inside and outside of a repository. It returns the root of that.
func repository(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	root := filepath.Join(top, "repo")
	write(t, top, "secret.md", "outside\n")
	write(t, top, "away/x.md", "outside\n")
	write(t, root, "a.md", "hello\n")
	write(t, root, "docs/one.md", "one\n")
	write(t, root, "docs/deep/two.md", "two\n")
	write(t, root, "empty.md", "")
	write(t, root, "code/main.go", "package main\n")
	write(t, root, ".git/config", "[core]\n")
	write(t, root, ".trellis/spec/index.md", "# Spec\n")
	write(t, root, "binary.dat", "\x7fELF\x00\x01")
	write(t, root, "latin.md", "caf\xe9\n")
	write(t, root, "big.md", "!"+strings.Repeat("é", 16<<10))
	write(t, root, "just.md", strings.Repeat("x", 32<<10))
	link(t, root, "inside.md", "docs/one.md")
	link(t, root, "out.md", "../secret.md")
	link(t, root, "absolute.md", filepath.Join(root, "a.md"))
	link(t, root, "etc", "/etc")
	link(t, root, "away", "../away")
	link(t, root, "docs/up", "..")
	link(t, root, "docs/climb", "../..")
	link(t, root, "chain", "docs/climb")
	link(t, root, "loop", "loop")
	link(t, root, "dangling.md", "nothing.md")
	link(t, root, "dangling-out.md", "../nothing.md")
	return root
}

func TestCheck(t *testing.T) {
	root := repository(t)
	const outside = "leads through a symlink that is absolute or points out of the repository"
	for _, tt := range []struct{ row, clean, want string }{
		{`{"file": "a.md"}`, "a.md", ""},
		{`{"file": "a.md", "path": "code/main.go"}`, "a.md", "warning: c.jsonl:1: code/main.go is not read, since the row names a.md"},
		{`{"file": "a.md", "path": "a.md"}`, "a.md", ""},
		{`{"file": "./docs//deep/two.md"}`, "docs/deep/two.md", ""},
		{`{"file": "empty.md"}`, "empty.md", ""},
		{`{"file": "inside.md"}`, "inside.md", ""},
		{`{"file": "docs/up/a.md"}`, "docs/up/a.md", ""},
		{`{"file": "just.md"}`, "just.md", ""},
		{`{"file": "docs/", "type": "directory"}`, "docs/", ""},
		{`{"file": "docs", "type": "directory"}`, "docs/", ""},
		{`{"file": "./", "type": "directory"}`, "./", "warning: c.jsonl:1: absolute.md " + outside},
		{`{"file": "code/", "type": "directory"}`, "code/", "warning: c.jsonl:1: code/ has no *.md files, and only those are shown"},
		{`{"file": "big.md"}`, "big.md", "warning: c.jsonl:1: big.md has 32769 bytes: prompts show its first 32768, and say where the rest is"},

		{`{"file": "/etc/passwd"}`, "", "c.jsonl:1: /etc/passwd: is absolute: write it from the top of the repository"},
		{`{"file": "` + root + `/a.md"}`, "", "c.jsonl:1: " + root + "/a.md: is absolute: write it from the top of the repository"},
		{`{"file": "C:/x.md"}`, "", "c.jsonl:1: C:/x.md: is absolute: write it from the top of the repository"},
		{`{"file": "../secret.md"}`, "", "c.jsonl:1: ../secret.md: has .. in it: write it from the top of the repository"},
		{`{"file": "docs/../a.md"}`, "", "c.jsonl:1: docs/../a.md: has .. in it: write it from the top of the repository"},
		{`{"file": "..\\secret.md"}`, "", `c.jsonl:1: ..\secret.md: has a \ in it: write / between folders`},
		{`{"file": "docs\\one.md"}`, "", `c.jsonl:1: docs\one.md: has a \ in it: write / between folders`},
		{`{"file": "a.md\n# header"}`, "", `c.jsonl:1: "a.md\n# header": has a control character in it`},
		{`{"file": "a\u0000.md"}`, "", `c.jsonl:1: "a\x00.md": has a control character in it`},
		{`{"file": ".git/config"}`, "", "c.jsonl:1: .git/config: is inside .git, which is not part of the project's files"},
		{`{"file": "none.md"}`, "", "c.jsonl:1: none.md does not exist"},
		{`{"file": "a.md/b"}`, "", "c.jsonl:1: a.md/b can't be read: not a directory"},
		{`{"file": "docs"}`, "", `c.jsonl:1: docs is a directory: end its path in / and add "type": "directory"`},
		{`{"file": "docs/"}`, "", `c.jsonl:1: docs is a directory: end its path in / and add "type": "directory"`},
		{`{"file": "a.md/"}`, "", "c.jsonl:1: a.md is a file: take the / from its end"},
		{`{"file": "a.md", "type": "directory"}`, "", `c.jsonl:1: a.md is a file, not a directory: take out "type"`},
		{`{"file": "binary.dat"}`, "", "c.jsonl:1: binary.dat is not UTF-8 text"},
		{`{"file": "latin.md"}`, "", "c.jsonl:1: latin.md is not UTF-8 text"},
		{`{"file": "out.md"}`, "", "c.jsonl:1: out.md " + outside},
		{`{"file": "absolute.md"}`, "", "c.jsonl:1: absolute.md " + outside},
		{`{"file": "etc/passwd"}`, "", "c.jsonl:1: etc/passwd " + outside},
		{`{"file": "docs/climb/secret.md"}`, "", "c.jsonl:1: docs/climb/secret.md " + outside},
		{`{"file": "chain/secret.md"}`, "", "c.jsonl:1: chain/secret.md " + outside},
		{`{"file": "away/", "type": "directory"}`, "", "c.jsonl:1: away " + outside},
		{`{"file": "dangling.md"}`, "", "c.jsonl:1: dangling.md does not exist"},
		{`{"file": "dangling-out.md"}`, "", "c.jsonl:1: dangling-out.md " + outside},
		{`{"file": "loop"}`, "", "c.jsonl:1: loop can't be read: too many levels of symbolic links"},
	} {
		rows, problems := contextfiles.Parse("c.jsonl", []byte(tt.row))
		if len(rows) != 1 {
			t.Fatalf("%s: %s", tt.row, said(problems))
		}
		valid, problems := contextfiles.Checker{Root: root}.Check("c.jsonl", rows)
		got, _, _ := strings.Cut(said(problems), "\n")
		if got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.row, got, tt.want)
		}
		clean := ""
		if len(valid) == 1 {
			clean = valid[0].Path
		}
		if clean != tt.clean {
			t.Errorf("%s: got path %q, want %q", tt.row, clean, tt.clean)
		}
	}
}

func TestCheckDoesNotWaitForAPipe(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, problems := contextfiles.Checker{Root: root}.Check("c", []contextfiles.Row{{Path: "pipe"}})
	if got, want := said(problems), "c: pipe is not a regular file\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckUnreadable(t *testing.T) {
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("permissions don't bind this user")
	}
	root := t.TempDir()
	write(t, root, "a.md", "x")
	if err := os.Chmod(filepath.Join(root, "a.md"), 0); err != nil {
		t.Fatal(err)
	}
	_, problems := contextfiles.Checker{Root: root}.Check("c", []contextfiles.Row{{Path: "a.md"}})
	if got, want := said(problems), "c: a.md can't be read: permission denied\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckDuplicates(t *testing.T) {
	rows, _ := contextfiles.Parse("c", []byte(`{"file": "docs"}
{"file": "docs/", "type": "directory"}
{"file": "a.md"}
{"path": "./a.md"}
{"file": "docs", "type": "directory"}`))
	valid, problems := contextfiles.Checker{Root: repository(t)}.Check("c", rows)
	want := `c:1: docs is a directory: end its path in / and add "type": "directory"
c:4: a.md is already in line 3
c:5: docs is already in line 2
`
	if got := said(problems); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(valid) != 2 || valid[0].Line != 2 || valid[1].Line != 3 {
		t.Errorf("valid: %+v", valid)
	}
}

func TestCheckInBase(t *testing.T) {
	var asked []string
	c := contextfiles.Checker{Root: repository(t), InBase: func(p string) (bool, error) {
		asked = append(asked, p)
		if p == "code/main.go" {
			return false, errors.New("no such commit")
		}
		return p == "a.md", nil
	}}
	rows := []contextfiles.Row{{Path: "a.md"}, {Path: "docs/", Type: contextfiles.Directory}, {Path: ".trellis/spec/index.md"}, {Path: "code/main.go"}}
	valid, problems := c.Check("c", rows)
	want := `warning: c: docs is not in the base commit: commit it, the worktree won't have it
warning: c: looking for code/main.go in the base commit: no such commit
`
	if got := said(problems); got != want || len(valid) != 4 {
		t.Errorf("got\n%swant\n%svalid: %v", got, want, valid)
	}
	if got, want := strings.Join(asked, " "), "a.md docs code/main.go"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	if got, want := problems[0].Hint, "git add -- :/docs && git commit"; got != want {
		t.Errorf("hint: got %s, want %s", got, want)
	}
}

func TestCheckWithoutRepository(t *testing.T) {
	valid, problems := contextfiles.Checker{Root: filepath.Join(t.TempDir(), "none")}.Check("c", []contextfiles.Row{{Path: "a.md"}})
	if valid != nil || len(problems) != 1 || problems[0].Warning {
		t.Errorf("got %v, %v", valid, problems)
	}
}
