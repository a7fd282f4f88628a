package app

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDocument(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prd.md"), []byte("# Paging\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "report.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &Project{}
	if err := os.WriteFile(filepath.Join(dir, "info.md"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if name, got, err := p.Document(dir, "plan.json", "info.md", "prd.md"); name != "prd.md" || got != "# Paging\n" || err != nil {
		t.Errorf("got %q of %s, %v", got, name, err)
	}
	if _, got, err := p.Document(dir, "plan.json"); got != "" || err != nil {
		t.Errorf("of what is not there: got %q, %v", got, err)
	}
	if _, got, err := p.Document(dir, "report.md", "prd.md"); err == nil {
		t.Errorf("of a folder: got %q and no error", got)
	}
}
