package upgrade

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

const maxProgram = 512 << 20

// Archive is the content of a release for one system.
type Archive struct {
	Program []byte
	Pages   map[string][]byte // pages of the manual, by file name
}

func readArchive(data []byte) (*Archive, error) {
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading the archive: %w", err)
	}
	a := &Archive{Pages: map[string][]byte{}}
	for files := tar.NewReader(io.LimitReader(packed, maxProgram)); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && head.Typeflag == tar.TypeReg {
			err = a.addFile(head.Name, files)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive: %w", err)
		}
	}
	if a.Program == nil {
		return nil, errors.New("reading the archive: it has no file trellis")
	}
	return a, nil
}

// addFile reads a file of the archive if it is to be installed.
func (a *Archive) addFile(name string, content io.Reader) (err error) {
	switch base := path.Base(name); {
	case base == "trellis":
		a.Program, err = io.ReadAll(content)
	case strings.HasPrefix(base, "trellis") && strings.HasSuffix(base, ".1") && path.Base(path.Dir(name)) == "man":
		a.Pages[base], err = io.ReadAll(content)
	}
	return err
}
