package app

import (
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/specs"
)

// PackageOf is the package of a new task: the one that --package names, or default_package. A project that lists none
// may have guidelines for one all the same.
func (p *Project) PackageOf(c *config.Config, name string) (string, error) {
	if name != "" && len(c.Packages) == 0 && filepath.IsLocal(name) {
		if st, err := os.Stat(filepath.Join(p.Root, specs.Dir, name)); err == nil && st.IsDir() {
			return name, nil
		}
	}
	known, _, err := c.Package(name)
	if err != nil {
		return "", WithHints(Usagef("--package: %w", err), "name it under packages in .trellis/config.yaml")
	}
	return known, nil
}
