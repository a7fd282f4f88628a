// Package upgrade replaces the running program's file with a release, and can restore the previous one. A release is accepted
// if its list of checksums is signed with the key in this program; no third party has to be asked on the network.
package upgrade

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"

	"aead.dev/minisign"
)

// Home is the address of the releases of this program. A mirror has the same paths: latest/download/checksums.txt and
// download/v0.2.0/ with the files of a release, and beside each list of checksums its signature, with the suffix .minisig.
const Home = "https://github.com/trellis-tasks/trellis/releases"

// Key is the public key of the releases, in minisign's one-line form. The linker sets it for a release; a program built in
// another way has none.
var Key string

// Errors about a release.
var (
	ErrUnsigned = errors.New("the key of the releases did not sign this")
	ErrChecksum = errors.New("it has not the checksum that was signed")
	ErrNotThere = errors.New("there is no such release for this machine")
)

const (
	maxList    = 1 << 20
	maxArchive = 256 << 20
)

// Server is a server with releases.
type Server struct {
	Base   string // see Home
	Key    string // see Key
	Client *http.Client
}

// Release is a signed release for this machine.
type Release struct {
	Version string // such as v0.2.0
	archive string // file name of the archive
	sum     []byte // SHA-256 of the archive
	server  *Server
}

// Newest returns the newest release.
func (s *Server) Newest(ctx context.Context) (*Release, error) {
	return s.findRelease(ctx, "latest/download", "")
}

// Release returns the release of a version such as v0.2.0.
func (s *Server) Release(ctx context.Context, version string) (*Release, error) {
	return s.findRelease(ctx, "download/"+version, version)
}

// findRelease reads the signed list in a folder. The file names in it contain the version, so an old list can't pass for another release.
func (s *Server) findRelease(ctx context.Context, folder, version string) (*Release, error) {
	list, err := s.get(ctx, folder+"/checksums.txt", maxList)
	if err != nil {
		return nil, err
	}
	signature, err := s.get(ctx, folder+"/checksums.txt.minisig", maxList)
	if err != nil {
		return nil, err
	}
	var key minisign.PublicKey
	if err := key.UnmarshalText([]byte(s.Key)); err != nil {
		return nil, fmt.Errorf("reading the key of the releases: %w", err)
	}
	if !minisign.Verify(key, list, signature) {
		return nil, fmt.Errorf("%s: %w", s.address(folder+"/checksums.txt"), ErrUnsigned)
	}
	for line := range strings.Lines(string(list)) {
		if r := s.parseLine(line); r != nil && (version == "" || r.Version == version) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%s: %w (%s/%s)", s.address(folder), ErrNotThere, runtime.GOOS, runtime.GOARCH)
}

// parseLine parses a line of the list: a checksum and a file name. It returns nil unless the file is the archive for this machine.
func (s *Server) parseLine(line string) *Release {
	hexSum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
	sum, err := hex.DecodeString(hexSum)
	version, fits := strings.CutSuffix(strings.TrimPrefix(name, "trellis_"), "_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	if err != nil || len(sum) != sha256.Size || !fits || !regexp.MustCompile(`^\d[0-9A-Za-z.+-]*$`).MatchString(version) {
		return nil
	}
	return &Release{Version: "v" + version, archive: name, sum: sum, server: s}
}

// Address returns the address of a file of the release; name begins with trellis_ and the version.
func (r *Release) Address(name string) string {
	return r.server.address("download/" + r.Version + "/" + name)
}

// Fetch downloads and verifies the archive.
func (r *Release) Fetch(ctx context.Context) (*Archive, error) {
	data, err := r.server.get(ctx, "download/"+r.Version+"/"+r.archive, maxArchive)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); !bytes.Equal(sum[:], r.sum) {
		return nil, fmt.Errorf("%s: %w", r.Address(r.archive), ErrChecksum)
	}
	return readArchive(data)
}

func (s *Server) address(path string) string { return strings.TrimSuffix(s.Base, "/") + "/" + path }

// get downloads a file of at most max bytes.
func (s *Server) get(ctx context.Context, path string, max int64) ([]byte, error) {
	address := s.address(path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("downloading %s: %w", address, err)
	}
	answer, err := s.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("downloading: %w", err) // the error names the address
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("downloading %s: %w", address, ErrNotThere)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("downloading %s: the server answered %s", address, answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, max+1))
	if err != nil {
		return nil, fmt.Errorf("downloading %s: %w", address, err)
	}
	if int64(len(data)) > max {
		return nil, fmt.Errorf("downloading %s: it is larger than %d bytes", address, max)
	}
	return data, nil
}
