package durable

import (
	"os"
	"path/filepath"
)

// Glob returns the files and folders in folder whose names match pattern; the name of folder itself is not a pattern.
func Glob(folder, pattern string) (paths []string) {
	entries, _ := os.ReadDir(folder) // none, if there is no such folder
	for _, e := range entries {
		if ok, err := filepath.Match(pattern, e.Name()); ok && err == nil {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths
}
