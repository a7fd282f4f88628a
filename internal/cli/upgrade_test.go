package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/upgrade"
	"github.com/trellis-tasks/trellis/internal/upgrade/upgradetest"
)

// upgrader is the real program in a folder of its own. It is a hard link: a file that was just written may not be executable while another
// test forks.
type upgrader struct {
	*testing.T
	path string
	env  []string
}

func newUpgrader(t *testing.T, server *upgradetest.Server) *upgrader {
	t.Helper()
	program := realTrellis(t)
	dir, err := os.MkdirTemp(shared, "upgrade") // on the file system of the program, for the link
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "trellis")
	if err := os.Link(program, path); err != nil {
		t.Fatal(err)
	}
	return &upgrader{t, path, []string{"HOME=" + t.TempDir(), "PATH=/bin:/usr/bin", releasesVar + "=" + server.URL, "GORACE=atexit_sleep_ms=0"}}
}

// run calls trellis upgrade, checks the exit code and returns the output.
func (u *upgrader) run(code int, args ...string) string {
	u.Helper()
	cmd := exec.Command(u.path, append([]string{"upgrade"}, args...)...)
	cmd.Env = u.env
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		u.Errorf("trellis upgrade %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return string(out)
}

// upgrade replaces the running program by a release and keeps the old program. If something is wrong, nothing is replaced.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	server := upgradetest.Serve(t)
	server.Add(t, "v99.0.0", map[string]string{"trellis": upgradetest.Program("v99.0.0")})
	u := newUpgrader(t, server)
	if said := u.run(command.ExitUnmet, "--check"); !regexp.MustCompile(`^trellis: release v99\.0\.0 is there, this is (v\S+|devel)\ntrellis: next: trellis upgrade\n$`).MatchString(said) {
		t.Errorf("it said %s", said)
	}
	if said := u.run(command.ExitUsage, "--version", "new"); !strings.Contains(said, "vnew is not a version") {
		t.Errorf("it said %s", said)
	}
	if said := u.run(command.ExitFailed, "--version", "98.0.0"); !strings.Contains(said, "/download/v98.0.0/checksums.txt: there is no such release for this machine") {
		t.Errorf("it said %s", said)
	}
	if said := u.run(command.ExitUsage, "--rollback"); !strings.Contains(said, "there is no program from before the last upgrade") {
		t.Errorf("it said %s", said)
	}
	archive := "trellis_99.0.0_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	server.Change(func(s *upgradetest.Server) { s.Alter[archive] = func(b []byte) []byte { return b[:len(b)-1] } })
	if said := u.run(command.ExitFailed); !strings.Contains(said, "trellis: nothing was changed: ") || !strings.Contains(said, "trellis: next: ") {
		t.Errorf("it said %s", said)
	}
	server.Change(func(s *upgradetest.Server) {
		delete(s.Alter, archive)
		s.Alter["checksums.txt"] = func(b []byte) []byte { return append(b, '\n') }
	})
	if said := u.run(command.ExitFailed, "--check"); !strings.Contains(said, "the key of the releases did not sign this") { // another exit code than for a newer release
		t.Errorf("it said %s", said)
	}
	server.Change(func(s *upgradetest.Server) { delete(s.Alter, "checksums.txt") })
	before, err := os.ReadFile(u.path)
	if err != nil {
		t.Fatal(err)
	}
	u.run(command.ExitDone)
	out, err := exec.Command(u.path).CombinedOutput()
	if err != nil || string(out) != "trellis v99.0.0\n" {
		t.Errorf("the new program says %q, %v", out, err)
	}
	previous, err := os.ReadFile(filepath.Join(filepath.Dir(u.path), ".trellis-previous"))
	if err != nil || string(previous) != string(before) {
		t.Errorf("the old program was not kept: %v", err)
	}
}

// If a package manager owns the program, nothing is replaced, and the next step is the package manager's command.
func TestUpgradeOfAPackage(t *testing.T) {
	t.Parallel()
	server := upgradetest.Serve(t)
	server.Add(t, "v99.0.0", map[string]string{"trellis": upgradetest.Program("v99.0.0")})
	u := newUpgrader(t, server)
	bin := t.TempDir()
	owns, err := exec.LookPath("true")
	if err == nil {
		err = os.Symlink(owns, filepath.Join(bin, "rpm"))
	}
	if err != nil {
		t.Fatal(err)
	}
	u.env = append(u.env, "PATH="+bin)
	want := "trellis: next: sudo rpm -U " + server.URL + "/download/v99.0.0/trellis_99.0.0_" + runtime.GOOS + "_" + runtime.GOARCH + ".rpm\n"
	if said := u.run(command.ExitUsage); !strings.HasSuffix(said, want) {
		t.Errorf("it said %s, want %s", said, want)
	}
	u.run(command.ExitUsage, "--rollback")
}

// A program of make build or go install has no key, and says how to update it.
func TestUpgradeOfABuild(t *testing.T) {
	t.Parallel()
	if upgrade.Key != "" {
		t.Fatal("the tests have the key of a release")
	}
	var said strings.Builder
	a := &console{Console: command.Console{Stderr: &said, Dir: t.TempDir()}}
	if code := a.Run(t.Context(), []string{"upgrade"}); code != command.ExitUsage || !strings.Contains(said.String(), "without the key of the releases\ntrellis: next: g") {
		t.Errorf("exit code %d, %s", code, said.String())
	}
}

// Without permission to replace the program, the next step is the same command as root.
func TestUpgradeHintRepeatsFlags(t *testing.T) {
	t.Parallel()
	var u upgrading
	u.program = &upgrade.Program{Path: "/usr/local/my bin/trellis"}
	cmd := upgradeCommand(new(command.Console))
	cmd.Action = func(c *cli.Context) error {
		u.flags = givenFlags(c)
		return nil
	}
	line := &cli.App{Commands: []*cli.Command{cmd}}
	for want, args := range map[string][]string{"": nil, " --version 'v0.2.0 x'": {"--version", "v0.2.0 x"}, " --rollback": {"--rollback"}} {
		if err := line.Run(append([]string{"trellis", "upgrade"}, args...)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(app.HintsOf(u.explain(fs.ErrPermission)), "\n"); got != "sudo '/usr/local/my bin/trellis' upgrade"+want {
			t.Errorf("%v: got %s", args, got)
		}
	}
}
