package cli

import (
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/specs"
)

// packageOf is the package of a new task: the one that --package names, or default_package. A project that lists none
// may have guidelines for one all the same.
func packageOf(c *config.Config, root, name string) (string, error) {
	if name != "" && len(c.Packages) == 0 && filepath.IsLocal(name) {
		if st, err := os.Stat(filepath.Join(root, specs.Dir, name)); err == nil && st.IsDir() {
			return name, nil
		}
	}
	known, _, err := c.Package(name)
	if err != nil {
		return "", app.WithHints(app.Usagef("--package: %w", err), "name it under packages in .trellis/config.yaml")
	}
	return known, nil
}
