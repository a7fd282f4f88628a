package specs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/specs"
)

func listed(t *testing.T, root, devType, pkg string, paths ...string) string {
	t.Helper()
	entries, err := specs.Base(root, devType, pkg, paths)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, strings.TrimPrefix(e.Path, ".trellis/"))
		if len(strings.Fields(e.Reason)) < 2 {
			t.Errorf("%s: the reason %q is one word", e.Path, e.Reason)
		}
	}
	return strings.Join(list, " ")
}

func TestBase(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"workflow.md", "spec/backend/index.md", "spec/frontend/index.md", "spec/guides/index.md", "spec/cli/backend/index.md"} {
		write(t, root, ".trellis/"+f, "# X\n")
	}
	write(t, root, ".trellis/other/backend/index.md", "# no guideline\n")
	write(t, root, ".trellis/spec/guides/index.md", "---\nglobs: ['api/**']\n---\n# listed already\n")
	write(t, root, ".trellis/spec/backend/api.md", "---\nglobs: ['api/**']\n---\n# API\n")
	write(t, root, ".trellis/spec/backend/sql.md", "---\nglobs: ['*.sql']\n---\n# SQL\n")
	write(t, root, "README.md", "# Project\n")
	for _, tt := range []struct {
		devType, pkg, paths, want string
	}{
		{"backend", "", "", "workflow.md spec/backend/index.md spec/guides/index.md"},
		{"test", "", "", "workflow.md spec/backend/index.md spec/guides/index.md"},
		{"frontend", "", "", "workflow.md spec/frontend/index.md spec/guides/index.md"},
		{"fullstack", "", "", "workflow.md spec/backend/index.md spec/frontend/index.md spec/guides/index.md"},
		{"", "", "", "workflow.md spec/backend/index.md spec/frontend/index.md spec/guides/index.md"},
		{"docs", "", "", "workflow.md spec/guides/index.md"},
		{"fullstack", "cli", "", "workflow.md spec/cli/backend/index.md spec/frontend/index.md spec/guides/index.md"},
		{"backend", "../other", "", "workflow.md spec/backend/index.md spec/guides/index.md"},
		{"backend", "", "db/a.sql api/x.go api/y.go", "workflow.md spec/backend/index.md spec/guides/index.md spec/backend/api.md spec/backend/sql.md"},
	} {
		if got := listed(t, root, tt.devType, tt.pkg, strings.Fields(tt.paths)...); got != tt.want {
			t.Errorf("%s %s %s\n got %s\nwant %s", tt.devType, tt.pkg, tt.paths, got, tt.want)
		}
	}
}

func TestBaseOfABareProject(t *testing.T) {
	root := t.TempDir()
	if got := listed(t, root, "backend", ""); got != "" {
		t.Errorf("nothing is there: got %s", got)
	}
	write(t, root, "Makefile", "")
	write(t, root, "go.mod", "")
	if got, want := listed(t, root, "backend", ""), "go.mod"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	write(t, root, "README", "")
	write(t, root, "ReadMe.md", "")
	if got, want := listed(t, root, "backend", ""), "ReadMe.md"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	write(t, root, ".trellis/spec/guides/index.md", "")
	if got, want := listed(t, root, "backend", ""), "spec/guides/index.md"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBaseLeavesOutWhatLeadsAway(t *testing.T) {
	top := t.TempDir()
	write(t, top, "away/workflow.md", "outside\n")
	root := filepath.Join(top, "repo")
	write(t, root, ".trellis/spec/guides/index.md", "")
	if err := os.Symlink("../../away/workflow.md", filepath.Join(root, ".trellis", "workflow.md")); err != nil {
		t.Fatal(err)
	}
	if got, want := listed(t, root, "docs", ""), "spec/guides/index.md"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := specs.Base(filepath.Join(top, "none"), "docs", "", nil); err == nil {
		t.Error("no repository: no error")
	}
}
