// Package upgradetest serves releases on loopback, for tests of those who install and upgrade.
package upgradetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"
)

var keys = sync.OnceValue(func() (k struct {
	public  minisign.PublicKey
	private minisign.PrivateKey
}) {
	var err error
	if k.public, k.private, err = minisign.GenerateKey(nil); err != nil {
		panic(err)
	}
	return k
})

// Key is the public key of all releases of this process, in one line.
func Key() string { return keys().public.String() }

// Server serves releases. Its fields are for faults, and are changed by Change where another process asks.
type Server struct {
	URL string
	// Alter changes what is sent for a file, by its name.
	Alter map[string]func([]byte) []byte
	// Cut are names of files of which only half is sent.
	Cut []string

	mu     sync.Mutex
	files  map[string][]byte // by their paths
	newest string
	asked  []string
}

// Serve begins to serve, until the test ends.
func Serve(t testing.TB) *Server {
	s := &Server{Alter: map[string]func([]byte) []byte{}, files: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Add adds the release of a version, as in v0.2.0, as the newest: an archive for this system with these files, and its signed list.
func (s *Server) Add(t testing.TB, version string, files map[string]string) {
	t.Helper()
	name := "trellis_" + strings.TrimPrefix(version, "v") + "_" + runtime.GOOS + "_" + runtime.GOARCH
	archive := pack(t, files)
	list := fmt.Appendf(nil, "%x  %s.tar.gz\n%x  another.deb\n", sha256.Sum256(archive), name, sha256.Sum256(nil))
	signer := minisign.NewReader(bytes.NewReader(list)) // what is signed is its hash, as minisign does it
	if _, err := io.Copy(io.Discard, signer); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	folder := "/download/" + version + "/"
	s.newest = version
	s.files[folder+name+".tar.gz"] = archive
	s.files[folder+"checksums.txt"] = list
	s.files[folder+"checksums.txt.minisig"] = signer.SignWithComments(keys().private, "trellis "+version, "a test")
}

func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	out := tar.NewWriter(packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o644)
		if name == "trellis" {
			mode = 0o755
		}
		if err := out.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []interface{ Close() error }{out, packed} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// Program is what stands in for the program of a version: it says that it is.
func Program(version string) string { return "#!/bin/sh\necho trellis " + version + "\n" }

// Change changes what the server does wrong, between two of its answers.
func (s *Server) Change(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Asked are the paths that were asked for so far.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// ServeHTTP serves a file.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.Path)
	path := r.URL.Path
	if name, latest := strings.CutPrefix(path, "/latest/download/"); latest {
		path = "/download/" + s.newest + "/" + name
	}
	data, found := s.files[path]
	if !found {
		http.NotFound(w, r)
		return
	}
	name := path[strings.LastIndex(path, "/")+1:]
	if alter := s.Alter[name]; alter != nil {
		data = alter(data)
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if slices.Contains(s.Cut, name) {
		data = data[:len(data)/2]
	}
	_, _ = w.Write(data) // who asked may be gone
}
