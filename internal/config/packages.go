package config

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
)

// UnknownPackageError says that a package is none of the project's, with the nearest that is.
type UnknownPackageError struct{ Name, Meant string }

func (e *UnknownPackageError) Error() string {
	return fmt.Sprintf("there is no package %q%s", e.Name, e.Meant)
}

// Package is the package of a task that names one, or "", and its name. A task that names none has that of
// default_package, or none. A name that is not among packages is an *UnknownPackageError.
func (c *Config) Package(name string) (string, Package, error) {
	name = cmp.Or(name, c.DefaultPackage)
	p, ok := c.Packages[name]
	if !ok && name != "" {
		return "", p, &UnknownPackageError{name, meant(name, sorted(c.Packages))}
	}
	return name, p, nil
}

// KnowsPackage is an *UnknownPackageError when a name is not among packages. A project that lists none may have guidelines for
// any.
func (c *Config) KnowsPackage(name string) error {
	if name == "" || len(c.Packages) == 0 {
		return nil
	}
	_, _, err := c.Package(name)
	return err
}

// Submodule is the path of the submodule that a package is, as git writes it; "" when it is none.
func (p Package) Submodule() string {
	if p.Type != "submodule" {
		return ""
	}
	return path.Clean(filepath.ToSlash(p.Path))
}
