package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hideSockets hides the sockets on which other programs listen, wherever they are: a program that may only read a folder can still talk
// to a socket in it. Sockets below open stay visible.
func (l *layout) hideSockets(open []string) error {
	for i, path := range open {
		open[i] = resolve(path)
	}
	paths, err := sockets()
	if err != nil {
		return fmt.Errorf("looking for what listens on this machine: %w", err)
	}
	for _, path := range paths {
		path = resolve(path)
		below := func(dir string) bool { return dir != "" && (path == dir || strings.HasPrefix(path, dir+"/")) }
		if _, said := l.kinds[path]; path == "" || said || l.kindOf(path) == hide || slices.ContainsFunc(open, below) {
			continue
		}
		l.kinds[path] = hide
	}
	return nil
}

// sockets returns the paths of the sockets on which programs of this machine listen, except in /dev: the sandbox has its own.
func sockets() (paths []string, err error) {
	f, err := os.Open("/proc/net/unix")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const flagsAt, pathAt, listens = 3, 7, "00010000"
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.SplitN(strings.Join(strings.Fields(lines.Text()), " "), " ", pathAt+1)
		if len(fields) <= pathAt || fields[flagsAt] != listens {
			continue
		}
		if path := fields[pathAt]; filepath.IsAbs(path) && !strings.HasPrefix(path, "/dev/") {
			paths = append(paths, path)
		}
	}
	return paths, lines.Err()
}
