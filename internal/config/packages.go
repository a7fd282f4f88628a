package config

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
)

// UnknownPackageError is the error for a package that the project does not have. Meant suggests the nearest one, or lists all.
type UnknownPackageError struct{ Name, Meant string }

func (e *UnknownPackageError) Error() string {
	return fmt.Sprintf("there is no package %q%s", e.Name, e.Meant)
}

// Package returns the package that a task names, which may be "", and its name. A task that names none has that of
// default_package, or none. For a name that is not among packages the error is an *UnknownPackageError.
func (c *Config) Package(name string) (string, Package, error) {
	name = cmp.Or(name, c.DefaultPackage)
	p, ok := c.Packages[name]
	if !ok && name != "" {
		return "", p, &UnknownPackageError{name, suggestion(name, sortedKeys(c.Packages))}
	}
	return name, p, nil
}

// CheckPackage returns an *UnknownPackageError if a name is not among packages. In a project that
// lists no packages any name may have guidelines, and the error is nil.
func (c *Config) CheckPackage(name string) error {
	if name == "" || len(c.Packages) == 0 {
		return nil
	}
	_, _, err := c.Package(name)
	return err
}

// Submodule returns the path of the package's submodule, as git writes it, or "" if the package is not one.
func (p Package) Submodule() string {
	if p.Type != "submodule" {
		return ""
	}
	return path.Clean(filepath.ToSlash(p.Path))
}
