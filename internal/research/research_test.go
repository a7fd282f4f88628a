package research_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/research"
)

const answer = "Intro.\n\n## Codebase Context\n\n```md\n## implement.jsonl\n- path: not/this.go, reason: in a fence\n```\n\n## implement.jsonl\n\n" +
	"- path: `api/list.go`, reason: the handler, as it is, with commas\n" +
	"- **path**: api/page.go, **reason**: helper\n* docs/guide.md - how pages work\n- path: `api/__init__.py`, reason: of __all__\n- path: api/\n- none\n\n" +
	"## `check.jsonl`:\n\n- path: .trellis/spec/backend/index.md, Reason: Style\n\n## Suggested Scope\n\nThe `api` layer\n\n" +
	"## Verification Plan\n\n- build: `go build ./...`\n- test: `go test ./...` and `go test ./...`\n- Lint: go vet ./...\n\n```sh\n# all\n$ make check\n```\n\n" +
	"## Risks\n\n- Files not to modify: `go.sum`, api/gen.pb.go.\n- The network may be slow.\n"

func TestParse(t *testing.T) {
	got := research.Parse([]byte(answer))
	var paths []string
	for _, c := range got.Context["implement.jsonl"] {
		paths = append(paths, c.Path+"|"+c.Reason)
	}
	if want := []string{"api/list.go|the handler, as it is, with commas", "api/page.go|helper", "docs/guide.md|how pages work", "api/__init__.py|of __all__", "api/|"}; !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
	if c := got.Context["check.jsonl"]; len(c) != 1 || c[0].Path != ".trellis/spec/backend/index.md" || c[0].Reason != "Style" {
		t.Errorf("got %v", c)
	}
	if line := got.Context["implement.jsonl"][0].Line; line != 12 {
		t.Errorf("got line %d, want 12", line)
	}
	if got.Scope != "the" {
		t.Errorf("got scope %q", got.Scope)
	}
	if want := []string{"go vet ./...", "go test ./...", "make check", "go build ./..."}; !slices.Equal(got.Commands, want) {
		t.Errorf("got commands %q, want %q", got.Commands, want)
	}
	if want := []string{"go.sum", "api/gen.pb.go"}; !slices.Equal(got.Protected, want) {
		t.Errorf("got protected %q, want %q", got.Protected, want)
	}
}

func TestMissing(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"Makefile": "test: build\n\techo\nbuild:\n", "package.json": `{"scripts":{"lint":"x","test":"y"}}`, "check.sh": "#!/bin/sh\n", "sub/own.sh": "#!/bin/sh\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := research.Project{Root: root, LookPath: func(name string) error {
		if slices.Contains([]string{"go", "make", "npm", "grep"}, name) {
			return nil
		}
		return errors.New("not found")
	}}
	for command, fine := range map[string]bool{
		"go test ./...": true, "make test": true, "make -j2 test build": true, "npm run lint": true, "npm test": true, "./check.sh": true,
		"CGO_ENABLED=0 go vet ./... && make build": true, "cd . && go test ./... | grep ok": true, "! grep -r TODO .": true,
		`grep -q "a && missing | b; c" go.mod`: true, `test "$(go list -m | grep -c x)" = 1`: true, "go version 2>&1 >/dev/null | grep go": true, `X="a b" go vet`: true,
		"go vet $(cat list; missing)": true, "[[ -f a && -f b ]]": true, "for f in *.go; do missing $f; done": true, "cd sub && ./own.sh": true, "cd sub && ./check.sh": false,
		"make -C sub deploy": true, "/bin/sh check.sh": true, "/bin/missing": false, "{{tool}} --version": true, "grep -q x {{file}}": true, "go test ./... # all": true,
		"Don't forget to run the tests": false, "Run (all) the tests": false, "cat <<EOF": false, "! missing": false, "{ go vet; missing; }": false, "(missing)": false,
		"cargo test": false, "make deploy": false, "npm run e2e": false, "./missing.sh": false, "go test ./... && cargo test": false,
		"true": false, ":": false, "echo done": false, "exit 0": false, "go test ./... || true": false, "go vet; true": false, "": false,
	} {
		if why := p.Missing(command); (why == "") != fine {
			t.Errorf("%q: got %q, want fine: %v", command, why, fine)
		}
	}
}

func TestVacuous(t *testing.T) {
	for line, want := range map[string]bool{
		"": true, " # todo": true, "true": true, "  :  ": true, "exit 0": true, "/bin/true": true, "echo ok": true, `printf "%s" "a | b"`: true, "echo $(go test)": true, "sleep 1": true,
		"go test || true": true, "go test; true": true, "go test; echo done": true, "go test\necho done": true, "go test || echo failed": true, "go test && echo ok || echo failed": true,
		"go test; exit 0": true, "exit 0; go test": true, "go test || exit 0": true, "go test &": true, "(go test || true)": true, "{ go test; true; }": true, "true && echo ok": true,
		"set -e; true": true, "set -eu\necho ok": true, "test 1": true, "[ 1 = 1 ]": true, `[ "a" != 'b' ]`: true, "[[ 1 == 1 ]]": true, "[ -d . ]": true, "test -n x": true, "[ 2 -gt 1 ]": true,
		"! false": true, "! test 1 = 2": true, "false || true": true, "bash -c 'exit 0'": true, "sh -c 'go test || true'": true, "command true": true, "CI=1 true": true, "A=1": true, "echo a > b": true,
		"true | true": true, "echo ok # go test": true, "! [ ]": true,

		"go test": false, "go test ./... | tee log": false, "set -e; go test; true": false, "go test && true": false, "true && go test": false, "echo x | grep y": false, "! grep -r TODO .": false,
		"go test; exit $?": false, "test -f go.mod || exit 1; true": false, "[ -f go.mod ]": false, "test $X": false, `[ "$(ls)" = "" ]`: false, "exit 1": false, "false": false, "exit": false,
		"bash -c 'go test'": false, "bash check.sh": false, "A=$(go test)": false, "grep -q '|| true' x": false, "go test -run 'a; true'": false, "env": false, "if true; then go test; fi": false,
		"go test '": false, "cat <<EOF\ntrue": false, "wait && go test": false, "go test ||": false, "(": false, "true)": false, "test 1 = 2": false, "[ 1 = 1": false, "{{cmd}}": false, "echo a; ls": false,
		"diff <(a) b": false, "[[ -f a && -f b ]]": false,
	} {
		if got := research.Vacuous(line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}

func FuzzVacuous(f *testing.F) {
	for _, line := range []string{"go test && echo 'ok' || exit 0; true", "[[ a && b ]] | ( c; { d; } )", "a=$(b `c` \"d\") 2>&1 & !"} {
		f.Add(line)
	}
	p := research.Project{LookPath: func(string) error { return nil }}
	f.Fuzz(func(t *testing.T, line string) {
		if research.Vacuous(line) && p.Missing(line) == "" {
			t.Fatal("it can't fail, and is fine all the same")
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(answer))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, list := range research.Parse(src).Context {
			for _, c := range list {
				if c.Path == "" {
					t.Fatal("an empty path")
				}
			}
		}
	})
}
