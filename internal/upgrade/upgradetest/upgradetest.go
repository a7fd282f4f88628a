// Package upgradetest serves releases on loopback, for tests of installing and upgrading.
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

// Key returns the public key of all releases of this process, in one line.
func Key() string { return keys().public.String() }

// Server serves releases. Its fields cause faults; while another process sends requests, they must be changed by Change.
type Server struct {
	URL string
	// Alter changes the content that is sent, by file name.
	Alter map[string]func([]byte) []byte
	// Cut lists the names of files of which only half is sent.
	Cut []string

	mu     sync.Mutex
	files  map[string][]byte // by path
	newest string
	asked  []string
}

// Serve starts a server that is closed when the test ends.
func Serve(t testing.TB) *Server {
	s := &Server{Alter: map[string]func([]byte) []byte{}, files: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Add adds the release of a version such as v0.2.0 as the newest: an archive of files for this system, and its signed list.
func (s *Server) Add(t testing.TB, version string, files map[string]string) {
	t.Helper()
	name := "trellis_" + strings.TrimPrefix(version, "v") + "_" + runtime.GOOS + "_" + runtime.GOARCH
	archive := pack(t, files)
	list := fmt.Appendf(nil, "%x  %s.tar.gz\n%x  another.deb\n", sha256.Sum256(archive), name, sha256.Sum256(nil))
	signer := minisign.NewReader(bytes.NewReader(list)) // minisign signs the hash of the file
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

// Program returns a script that acts as the program of a version: it prints the version.
func Program(version string) string { return "#!/bin/sh\necho trellis " + version + "\n" }

// Change changes the faults of the server between two responses.
func (s *Server) Change(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Asked returns the paths requested so far.
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
	_, _ = w.Write(data) // the client may be gone
}
