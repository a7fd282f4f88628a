package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/upgrade/upgradetest"
)

// scriptInstall runs install.sh as a release has it, with a home of its own.
type scriptInstall struct {
	*testing.T
	server *upgradetest.Server
	home   string
	script string
	path   string
}

// newScriptInstall serves a release to a shell that finds only these programs and the usual ones.
func newScriptInstall(t *testing.T, programs ...string) *scriptInstall {
	t.Helper()
	i := &scriptInstall{T: t, server: upgradetest.Serve(t), home: t.TempDir(), path: t.TempDir()}
	i.server.Add(t, "v0.2.0", map[string]string{"trellis": upgradetest.Program("v0.2.0"), "man/trellis.1": "page", "man/trellis-plan.1": "page",
		"completions/trellis.bash": "bash", "completions/_trellis": "zsh", "completions/trellis.fish": "fish"})
	script, err := os.ReadFile(filepath.Join(repository(t), "scripts", "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(script), "\n"); n >= 100 {
		t.Errorf("install.sh has %d lines; who pipes it into a shell reads it first", n)
	}
	i.script = strings.ReplaceAll(string(script), "@KEY@", upgradetest.Key())
	for _, name := range append(programs, "sh", "uname", "tr", "curl", "mktemp", "mkdir", "rm", "cp", "mv", "sed", "head", "tail", "od", "cut", "grep", "tar", "gzip", "sha256sum") {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("there is no %s on this machine", name)
		}
		if err := os.Symlink(program, filepath.Join(i.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// alters has the server send a changed file.
func (i *scriptInstall) alters(name string, how func([]byte) []byte) {
	i.server.Change(func(s *upgradetest.Server) { s.Alter[name] = how })
}

// run pipes the script into a shell, and returns whether it succeeded, and its output.
func (i *scriptInstall) run(env ...string) (bool, string) {
	cmd := exec.Command("/bin/sh")
	cmd.Dir = i.home
	cmd.Env = append([]string{"HOME=" + i.home, "PATH=" + i.path, "TRELLIS_RELEASES=" + i.server.URL}, env...)
	cmd.Stdin = strings.NewReader(i.script)
	out, err := cmd.CombinedOutput()
	return err == nil, string(out)
}

// holds checks that these are all the files below the home.
func (i *scriptInstall) holds(want ...string) {
	i.Helper()
	var got []string
	err := filepath.WalkDir(i.home, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, strings.TrimPrefix(path, i.home+"/"))
		}
		return err
	})
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		i.Errorf("the home has %q, %v, want %q", got, err, want)
	}
}

var installedFiles = []string{".local/bin/trellis", ".local/share/bash-completion/completions/trellis", ".local/share/fish/vendor_completions.d/trellis.fish",
	".local/share/man/man1/trellis-plan.1", ".local/share/man/man1/trellis.1", ".local/share/zsh/site-functions/_trellis"}

func TestInstallScript(t *testing.T) {
	t.Parallel()
	for _, checker := range []string{"openssl", "minisign", "neither"} {
		t.Run(checker, func(t *testing.T) {
			programs, how := []string{checker}, "signature and checksum"
			if checker == "neither" {
				programs, how = nil, "checksum alone, since neither minisign nor OpenSSL 3 is here"
			}
			i := newScriptInstall(t, programs...)
			if ok, said := i.run(); !ok || !strings.Contains(said, "/bin/trellis v0.2.0, by "+how+"\n") || !strings.Contains(said, "next: put "+i.home+"/.local/bin into PATH") {
				t.Errorf("it said %s", said)
			}
			i.holds(installedFiles...)
			if checker == "neither" {
				return
			}
			i.alters("checksums.txt", func(b []byte) []byte { return append(b, '\n') })
			if ok, said := i.run(); ok || !strings.Contains(said, "the key of the releases did not sign ") {
				t.Errorf("a list that was changed was taken: %s", said)
			}
		})
	}
}

// If anything is wrong, nothing is installed and no file is left.
func TestInstallScriptThatFails(t *testing.T) {
	t.Parallel()
	archive := "trellis_0.2.0_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	for name, c := range map[string]struct {
		fault func(*scriptInstall)
		env   string
		says  string
	}{
		"archive cut":     {fault: func(i *scriptInstall) { i.server.Change(func(s *upgradetest.Server) { s.Cut = []string{archive} }) }, says: "could not be downloaded, so nothing was installed"},
		"archive changed": {fault: func(i *scriptInstall) { i.alters(archive, func(b []byte) []byte { return append(b, 0) }) }, says: "has not the checksum"},
		"another key": {fault: func(i *scriptInstall) {
			i.script = strings.ReplaceAll(i.script, upgradetest.Key(), "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")
		}, says: "did not sign"},
		"no such release": {env: "TRELLIS_VERSION=v0.3.0", says: "/download/v0.3.0/checksums.txt could not be downloaded"},
		"script cut":      {fault: func(i *scriptInstall) { i.script = i.script[:len(i.script)-len("main\n")] }},
		"no key":          {fault: func(i *scriptInstall) { i.script = strings.ReplaceAll(i.script, upgradetest.Key(), "@KEY@") }, says: "take the install.sh of a release"},
		"does not run": {fault: func(i *scriptInstall) {
			i.server.Add(i, "v0.2.0", map[string]string{"trellis": "#!/bin/sh\nexit 1\n"})
		}, says: "the program does not run on this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newScriptInstall(t, "openssl")
			if c.fault != nil {
				c.fault(i)
			}
			ok, said := i.run("UNUSED=", c.env)
			if ok != (c.says == "") || !strings.Contains(said, c.says) {
				t.Errorf("it said %s, want %s", said, c.says)
			}
			i.holds()
		})
	}
}
