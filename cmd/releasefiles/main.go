// Command releasefiles writes the files of a release besides its programs: manual, completion scripts, notes, Debian
// changelogs, and install.sh with the public key of the releases. goreleaser calls it; the same commit gives the same files.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/changelog"
	"github.com/trellis-tasks/trellis/internal/cli"
)

// edition is the release that files are written for.
type edition struct {
	version string // as in 0.2.0
	date    time.Time
	key     string // the public key of the releases
	dir     string
}

func main() {
	var e edition
	date := ""
	flag.StringVar(&e.version, "version", "", "the version, as in 0.2.0")
	flag.StringVar(&date, "date", "", "the date of the commit, as in 2026-02-01T09:05:03Z")
	flag.StringVar(&e.key, "key", "", "the public key of the releases, in one line")
	flag.StringVar(&e.dir, "o", "bin/release", "the folder to write to")
	flag.Parse()
	var err error
	if e.date, err = time.Parse(time.RFC3339, date); err == nil {
		err = e.write()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "releasefiles:", err)
		os.Exit(1)
	}
}

// write writes all files. It is run in the root of the repository.
func (e edition) write() error {
	releases, err := changelog.Read(os.DirFS("changes"))
	if err != nil {
		return err
	}
	install, err := e.installScript()
	if err != nil {
		return err
	}
	files := map[string][]byte{"install.sh": install}
	for name, page := range cli.Manual("v"+e.version, e.date.UTC().Format(time.DateOnly)) {
		files[filepath.Join("man", name)] = []byte(page)
		if files[filepath.Join("man-gz", name+".gz")], err = pack([]byte(page)); err != nil {
			return err
		}
	}
	for shell, name := range map[string]string{"bash": "trellis.bash", "zsh": "_trellis", "fish": "trellis.fish"} {
		if files[filepath.Join("completions", name)], err = os.ReadFile(filepath.Join("internal/cli/commandline/completion", shell)); err != nil {
			return err
		}
	}
	r := e.release(releases)
	files["notes.md"] = []byte(r.Notes())
	if files["changelog.Debian.gz"], err = pack([]byte(e.debian(r))); err != nil {
		return err
	}
	if files["changelog.gz"], err = pack([]byte(changelog.Page(releases))); err != nil {
		return err
	}
	if err := os.RemoveAll(e.dir); err != nil {
		return err
	}
	for name, data := range files {
		if err := e.put(name, data); err != nil {
			return err
		}
	}
	return nil
}

func (e edition) put(name string, data []byte) error {
	path := filepath.Join(e.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if filepath.Ext(name) == ".sh" {
		mode = 0o755
	}
	return os.WriteFile(path, data, mode)
}

// release returns the changes of this edition, or the unreleased changes while its own have no folder yet.
func (e edition) release(all []changelog.Release) changelog.Release {
	for _, r := range all {
		if r.Version == e.version {
			return r
		}
	}
	for _, r := range all {
		if r.Version == changelog.Unreleased {
			return r
		}
	}
	return changelog.Release{Version: e.version}
}

// installScript returns scripts/install.sh with the public key inserted.
func (e edition) installScript() ([]byte, error) {
	script, err := os.ReadFile("scripts/install.sh")
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(script, []byte("@KEY@")) {
		return nil, errors.New("scripts/install.sh: it has no @KEY@, which the key of the releases replaces")
	}
	return bytes.ReplaceAll(script, []byte("@KEY@"), []byte(e.key)), nil
}

// debian returns the notes of a release in the format of a Debian changelog.
func (e edition) debian(r changelog.Release) string {
	var b strings.Builder
	fmt.Fprintf(&b, "trellis (%s) stable; urgency=medium\n\n", strings.Replace(e.version, "-", "~", 1))
	for line := range strings.Lines(r.Notes()) {
		if title, item := strings.CutPrefix(line, "- "); item {
			b.WriteString("  * " + title)
		}
	}
	fmt.Fprintf(&b, "\n -- Trellis maintainers <trellis-tasks@users.noreply.github.com>  %s\n", e.date.UTC().Format(time.RFC1123Z))
	return b.String()
}

// pack compresses data as gzip -9n does.
func pack(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
