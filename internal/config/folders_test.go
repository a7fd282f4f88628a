package config_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
)

// A worktree folder in the main checkout that git does not ignore gets a warning, and so does a package whose folder does not exist.
func TestFolders(t *testing.T) {
	for _, row := range []struct{ text, older, want string }{
		{"", "", ""},
		{"packages: {web: {path: ./web}}", "", ""},
		{"packages:\n  web: {path: web}\n  api: {path: nope}", "", "warning: config.yaml:3: packages.api.path is not a folder of the checkout: nope\n"},
		{"worktree: {dir: ../trees}", "", ""},
		{"worktree: {dir: /elsewhere}", "", ""},
		{"worktree:\n  dir: kept/trees", "", ""},
		{"worktree:\n  dir: trees/<repo>/", "", "warning: config.yaml:2: worktree.dir is in the main checkout, and git does not ignore it: trees/shop\n"},
		{"worktree:\n  dir: " + root + "/trees", "", "warning: config.yaml:2: worktree.dir is in the main checkout, and git does not ignore it: trees\n"},
		{"", "copy: []\nworktree_dir: trees\n", "warning: worktree.yaml:2: worktree.dir is in the main checkout, and git does not ignore it: trees\n"},
	} {
		files := config.Files{Root: root, Config: config.File{Name: "config.yaml", Data: []byte(row.text)}, Worktree: config.File{Name: "worktree.yaml", Data: []byte(row.older)}}
		there := func(path string) bool { return path == "web" }
		ignored := func(path string) bool { return path == "kept/trees" }
		if got := said(files.FolderWarnings(there, ignored)); got != row.want {
			t.Errorf("%q: got %q, want %q", row.text, got, row.want)
		}
	}
}
