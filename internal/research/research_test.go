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
	"- **path**: api/page.go, **reason**: helper\n* docs/guide.md - how pages work\n- path: api/\n- none\n\n" +
	"## `check.jsonl`:\n\n- path: .trellis/spec/backend/index.md, Reason: Style\n\n## Suggested Scope\n\nThe `api` layer\n\n" +
	"## Verification Plan\n\n- build: `go build ./...`\n- test: `go test ./...` and `go test ./...`\n- Lint: go vet ./...\n\n```sh\n# all\n$ make check\n```\n\n" +
	"## Risks\n\n- Files not to modify: `go.sum`, api/gen.pb.go.\n- The network may be slow.\n"

func TestParse(t *testing.T) {
	got := research.Parse([]byte(answer))
	var paths []string
	for _, c := range got.Context["implement.jsonl"] {
		paths = append(paths, c.Path+"|"+c.Reason)
	}
	if want := []string{"api/list.go|the handler, as it is, with commas", "api/page.go|helper", "docs/guide.md|how pages work", "api/|"}; !slices.Equal(paths, want) {
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
	for name, text := range map[string]string{"Makefile": "test: build\n\techo\nbuild:\n", "package.json": `{"scripts":{"lint":"x","test":"y"}}`, "check.sh": "#!/bin/sh\n"} {
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
		"cargo test": false, "make deploy": false, "npm run e2e": false, "./missing.sh": false, "go test ./... && cargo test": false,
		"true": false, ":": false, "echo done": false, "exit 0": false, "go test ./... || true": false, "go vet; true": false, "": false,
	} {
		if why := p.Missing(command); (why == "") != fine {
			t.Errorf("%q: got %q, want fine: %v", command, why, fine)
		}
	}
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
