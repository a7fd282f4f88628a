package durable

import (
	"os"
	"path/filepath"
)

// Glob are the files and folders of folder that match; its own name is no pattern.
func Glob(folder, pattern string) (paths []string) {
	entries, _ := os.ReadDir(folder) // none, if there is no such folder
	for _, e := range entries {
		if ok, err := filepath.Match(pattern, e.Name()); ok && err == nil {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths
}
