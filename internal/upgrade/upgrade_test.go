package upgrade_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/upgrade"
	"github.com/trellis-tasks/trellis/internal/upgrade/upgradetest"
)

// installed is a program of version v0.1.0 in its own folder.
type installed struct {
	*testing.T
	upgrade.Program
}

func install(t *testing.T) *installed {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bin", "trellis")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(upgradetest.Program("v0.1.0")), 0o755); err != nil {
		t.Fatal(err)
	}
	return &installed{t, upgrade.Program{Path: path, Disk: new(durable.Disk), Env: []string{"PATH=" + os.Getenv("PATH")}}}
}

// is fails the test unless the program is that of version, and can be run.
func (p *installed) is(version string) {
	p.Helper()
	data, err := os.ReadFile(p.Path)
	info, statErr := os.Stat(p.Path)
	if err != nil || statErr != nil || string(data) != upgradetest.Program(version) || info.Mode().Perm() != 0o755 {
		p.Errorf("the program is %q %v, %v, want that of %s", data, info.Mode(), err, version)
	}
}

// alone fails the test unless the folder has nothing but the program and names.
func (p *installed) alone(names ...string) {
	p.Helper()
	entries, err := os.ReadDir(filepath.Dir(p.Path))
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := strings.Join(append(names, "trellis"), " "); err != nil || strings.Join(got, " ") != want {
		p.Errorf("the folder has %q, want %q", got, want)
	}
}

func (p *installed) upgrade(ctx context.Context, s *upgrade.Server) error {
	r, err := s.Newest(ctx)
	if err != nil {
		return err
	}
	files, err := r.Fetch(ctx)
	if err != nil {
		return err
	}
	return p.Replace(ctx, files)
}

func serve(t *testing.T, version, program string) (*upgradetest.Server, *upgrade.Server) {
	s := upgradetest.Serve(t)
	s.Add(t, version, map[string]string{"LICENSE": "free", "trellis": program, "man/trellis.1": "the page of " + version})
	return s, &upgrade.Server{Base: s.URL + "/", Key: upgradetest.Key(), Client: http.DefaultClient}
}

func TestUpgradeAndBack(t *testing.T) {
	p := install(t)
	s, server := serve(t, "v0.2.0", upgradetest.Program("v0.2.0"))
	if err := p.Rollback(t.Context()); !errors.Is(err, upgrade.ErrNoPrevious) {
		t.Errorf("got %v, want that there is nothing to go back to", err)
	}
	page := filepath.Join(p.Path, "../../share/man/man1/trellis.1")
	if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.upgrade(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	p.is("v0.2.0")
	p.alone(".trellis-previous")
	if got, err := os.ReadFile(page); err != nil || string(got) != "the page of v0.2.0" {
		t.Errorf("the manual is %q, %v", got, err)
	}
	s.Add(t, "v0.3.0", map[string]string{"trellis": upgradetest.Program("v0.3.0")})
	if err := p.upgrade(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"v0.2.0", "v0.3.0", "v0.2.0"} {
		if err := p.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.is(want)
		p.alone(".trellis-previous")
	}
	r, err := server.Release(t.Context(), "v0.2.0")
	if err != nil || r.Version != "v0.2.0" {
		t.Errorf("got %v, %v", r, err)
	}
}

// A release that is not as it was signed, or does not run, leaves the installed program in place.
func TestNothingBadIsInstalled(t *testing.T) {
	archive := "trellis_0.2.0_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	swap := func(old, by string) func([]byte) []byte {
		return func(data []byte) []byte { return bytes.Replace(data, []byte(old), []byte(by), 1) }
	}
	for name, c := range map[string]struct {
		fault   func(*upgradetest.Server, *upgrade.Server)
		program string
		want    error
	}{
		"signature of somebody else": {fault: func(_ *upgradetest.Server, s *upgrade.Server) {
			s.Key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3" // the key of minisign itself
		}, want: upgrade.ErrUnsigned},
		"list changed": {fault: func(f *upgradetest.Server, _ *upgrade.Server) { f.Alter["checksums.txt"] = swap("0.2.0", "0.2.1") }, want: upgrade.ErrUnsigned},
		"no signature": {fault: func(f *upgradetest.Server, _ *upgrade.Server) { f.Alter["checksums.txt.minisig"] = swap("\n", " ") }, want: upgrade.ErrUnsigned},
		"comment changed": {fault: func(f *upgradetest.Server, _ *upgrade.Server) {
			f.Alter["checksums.txt.minisig"] = swap("v0.2.0", "v0.3.0")
		}, want: upgrade.ErrUnsigned},
		"archive changed": {fault: func(f *upgradetest.Server, _ *upgrade.Server) {
			f.Alter[archive] = func(b []byte) []byte { return append(b, 0) }
		}, want: upgrade.ErrChecksum},
		"archive cut":     {fault: func(f *upgradetest.Server, _ *upgrade.Server) { f.Cut = []string{archive} }, want: io.ErrUnexpectedEOF},
		"list cut":        {fault: func(f *upgradetest.Server, _ *upgrade.Server) { f.Cut = []string{"checksums.txt"} }, want: io.ErrUnexpectedEOF},
		"signature cut":   {fault: func(f *upgradetest.Server, _ *upgrade.Server) { f.Cut = []string{"checksums.txt.minisig"} }, want: io.ErrUnexpectedEOF},
		"another program": {program: "#!/bin/sh\necho hello\n"},
		"one that fails":  {program: "#!/bin/sh\necho trellis v0.2.0\nexit 1\n"},
		"another machine": {program: "\x7fELF of something else"},
	} {
		t.Run(name, func(t *testing.T) {
			p, program := install(t), c.program
			if program == "" {
				program = upgradetest.Program("v0.2.0")
			}
			fake, server := serve(t, "v0.2.0", program)
			if c.fault != nil {
				c.fault(fake, server)
			}
			if err := p.upgrade(t.Context(), server); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			p.is("v0.1.0")
			p.alone()
		})
	}
}

// An old list that was signed does not pass for another version, and a version that nobody released is not found.
func TestReleaseThatIsNotThere(t *testing.T) {
	fake, server := serve(t, "v0.2.0", upgradetest.Program("v0.2.0"))
	old, signature := []byte(nil), []byte(nil)
	fake.Alter["checksums.txt"] = func(b []byte) []byte { old = b; return b }
	fake.Alter["checksums.txt.minisig"] = func(b []byte) []byte { signature = b; return b }
	if _, err := server.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake.Add(t, "v0.3.0", nil)
	fake.Alter["checksums.txt"] = func([]byte) []byte { return old }
	fake.Alter["checksums.txt.minisig"] = func([]byte) []byte { return signature }
	for _, version := range []string{"v0.3.0", "v0.4.0"} {
		if _, err := server.Release(t.Context(), version); !errors.Is(err, upgrade.ErrNotThere) {
			t.Errorf("%s: got %v", version, err)
		}
	}
}

// If the disk is full, or fails, at any step of an upgrade or a rollback, there is a complete program, the old one or the new one,
// and the next attempt succeeds.
func TestFailingDisk(t *testing.T) {
	_, server := serve(t, "v0.2.0", upgradetest.Program("v0.2.0"))
	for _, back := range []bool{false, true} {
		steps := 0
		for at := 1; ; at++ {
			p := install(t)
			before, after := "v0.1.0", "v0.2.0"
			do := func() error { return p.upgrade(t.Context(), server) }
			if back {
				if err := do(); err != nil {
					t.Fatal(err)
				}
				before, after = after, before
				do = func() error { return p.Rollback(t.Context()) }
			}
			steps = 0
			p.Disk.Fault = func(step, path string) error {
				if steps++; steps == at {
					return &os.PathError{Op: step, Path: path, Err: syscall.ENOSPC}
				}
				return nil
			}
			err := do()
			if steps < at {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if data, _ := os.ReadFile(p.Path); err == nil || !errors.Is(err, syscall.ENOSPC) || string(data) != upgradetest.Program(before) && string(data) != upgradetest.Program(after) {
				t.Errorf("step %d: got %v, and the program is %q", at, err, data)
			}
			p.Disk.Fault = nil
			if data, _ := os.ReadFile(p.Path); string(data) == upgradetest.Program(before) {
				if err := do(); err != nil {
					t.Errorf("step %d, again: %v", at, err)
				}
			}
			p.is(after)
		}
		if steps < 8 {
			t.Errorf("only %d steps were made to fail", steps)
		}
	}
}

// One process changes the program at a time: another upgrade or rollback meanwhile returns ErrHeld, and changes nothing.
func TestOneAtATime(t *testing.T) {
	_, server := serve(t, "v0.2.0", upgradetest.Program("v0.2.0"))
	p := install(t)
	if err := p.upgrade(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	other, meanwhile := p.Program, 0
	other.Disk = new(durable.Disk)
	p.Disk.Fault = func(string, string) error {
		meanwhile++
		if err := other.Rollback(t.Context()); !errors.Is(err, durable.ErrHeld) {
			t.Errorf("a rollback during another: got %v", err)
		}
		return nil
	}
	if err := p.Rollback(t.Context()); err != nil || meanwhile == 0 {
		t.Errorf("%v, %d tries meanwhile", err, meanwhile)
	}
	p.is("v0.1.0")
	p.alone(".trellis-previous")
}

// A rollback that ended between its two renames is completed by the next one, which loses neither program.
func TestRollbackThatWasCutOff(t *testing.T) {
	_, server := serve(t, "v0.2.0", upgradetest.Program("v0.2.0"))
	p := install(t)
	if err := p.upgrade(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	p.Disk.Fault = func(step, path string) error {
		if step == "rename" && filepath.Base(path) == ".trellis-previous" {
			return syscall.EIO
		}
		return nil
	}
	if err := p.Rollback(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v", err)
	}
	p.Disk.Fault = nil
	for _, want := range []string{"v0.1.0", "v0.2.0", "v0.1.0"} {
		if err := p.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.is(want)
		p.alone(".trellis-previous")
	}
}

// The owner of a file is the package manager that knows it.
func TestOwner(t *testing.T) {
	p := install(t)
	if got := p.Owner(t.Context()); got != "" {
		t.Errorf("got %q, want nobody", got)
	}
	for program, want := range map[string]upgrade.Owner{"dpkg-query": upgrade.Dpkg, "rpm": upgrade.RPM, "apk": upgrade.APK} {
		dir := t.TempDir()
		script := "#!/bin/sh\nfor last; do :; done\ntest \"$last\" = '" + p.Path + "'\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		p.Env = []string{"PATH=" + dir}
		if got := p.Owner(t.Context()); got != want {
			t.Errorf("with %s: got %q, want %q", program, got, want)
		}
	}
	cask := upgrade.Program{Path: "/opt/homebrew/Caskroom/trellis/0.1.0/trellis"}
	if got := cask.Owner(t.Context()); got != upgrade.Homebrew {
		t.Errorf("got %q", got)
	}
}
