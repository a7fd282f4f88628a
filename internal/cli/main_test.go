package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/gittest"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/soak"
)

// asMain is trellis as its main function runs it.
func asMain() { os.Exit(Main()) }

func TestMain(m *testing.M) {
	memory := os.TempDir()
	gittest.OnDisk() // the sandbox has another /dev/shm, so that what it has to see must be on a disk
	if code, entered := sandbox.RunEntrance(os.Args[1:]); entered {
		os.Exit(code)
	}
	testscript.Main(tidy{m, memory}, map[string]func(){"trellis": asMain, "trellis-faulty": faulty, "gh": gh})
}

// shared is a folder on the disk for files that are created once for all tests.
var shared string

// tidy runs the tests with that folder, and with their own folders in memory.
type tidy struct {
	*testing.M
	memory string // where temporary files are created
}

func (t tidy) Run() int {
	gittest.HearSignals()
	dir, err := os.MkdirTemp("", "trellis-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared = dir
	// The settings of whoever runs the tests are not changed.
	for name, value := range map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "XDG_CONFIG_HOME": filepath.Join(dir, "config"), "TMPDIR": t.memory} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return t.M.Run()
}

// gh stands in for GitHub's program: it writes to $GH_KEEP how it was called, and answers with the files and the exit code that the
// script names.
func gh() {
	if githubtest.Asked() { // for the one that keeps pull requests
		githubtest.Main()
	}
	dir, _ := os.Getwd()
	kept := fmt.Sprintf("dir %s\ncolour %s%s prompt %s\n", dir, os.Getenv("GH_FORCE_TTY"), os.Getenv("CLICOLOR_FORCE"), os.Getenv("GH_PROMPT_DISABLED"))
	for _, arg := range os.Args[1:] {
		kept += fmt.Sprintf("arg %q\n", arg)
	}
	if err := os.WriteFile(os.Getenv("GH_KEEP"), []byte(kept), 0o666); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	for name, to := range map[string]*os.File{os.Getenv("GH_PRINTS"): os.Stdout, os.Getenv("GH_SAYS"): os.Stderr} {
		if data, err := os.ReadFile(name); err == nil {
			to.Write(data)
		}
	}
	code, _ := strconv.Atoi(os.Getenv("GH_EXIT")) // "": 0
	os.Exit(code)
}

// TestScripts runs the commands that a user types, with one txtar file for each subject.
func TestScripts(t *testing.T) {
	collect := &collecting{T: t}
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	boxed := filepath.Join("testdata", "sandbox.txtar")
	for root, files := range map[string][]string{"": slices.DeleteFunc(all, func(file string) bool { return file == boxed }), shared: {boxed}} {
		testscript.Run(t, testscript.Params{
			Files:               files,
			WorkdirRoot:         root,
			RequireExplicitExec: true,
			Setup:               prepareScript,
			Cmds:                map[string]func(*testscript.TestScript, bool, []string){"code": code, "repo": repo, "key": key, "scraped": scraped, "collector": collect.begin, "collected": collect.has, "issues": issues},
		})
	}
}

// raced returns the scripts whose commands do the most in parallel. They run the tests' own program, which may have the race detector. All
// others run the command as it is built for people, which starts in a quarter of the time.
func raced() []string {
	return soak.Of([]string{"react", "watch", "run_people"}, "react", "watch")
}

// prepareScript gives a script a home and a search path of its own, so that neither the agents nor the git configuration of the machine
// have an effect.
func prepareScript(env *testscript.Env) error {
	home, bin, fakes := filepath.Join(env.WorkDir, ".home"), filepath.Join(env.WorkDir, ".bin"), filepath.Join(env.WorkDir, ".fakes")
	for _, dir := range []string{home, bin, fakes} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
	}
	for _, name := range []string{"gh", "trellis-faulty"} { // those above, for scripts that put .fakes into PATH
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(fakes, name))
		}
		if err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	if path, err := exec.LookPath("bwrap"); err == nil { // for scripts that put .boxes into PATH
		if err := errors.Join(os.Mkdir(filepath.Join(env.WorkDir, ".boxes"), 0o777), os.Symlink(path, filepath.Join(env.WorkDir, ".boxes", "bwrap"))); err != nil {
			return err
		}
	} else if os.Getenv("CI") != "" && runtime.GOOS == "linux" {
		return fmt.Errorf("make setup installs it: %w", err)
	}
	for _, name := range []string{"bash", "cat", "chmod", "cmp", "cp", "env", "git", "grep", "ln", "ls", "mkdir", "mv", "printf", "rm", "sh", "sleep", "touch", "trellis", "wc"} {
		path, err := exec.LookPath(name)
		if name == "trellis" && !slices.Contains(raced(), strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")) {
			path, err = built()
		}
		if err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	config := "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n" + gittest.NoTidying
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o666); err != nil {
		return err
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	env.Setenv("REPOSITORY", root)
	env.Setenv("HOME", home)
	env.Setenv("PATH", bin)
	env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Setenv("GOGC", os.Getenv("GOGC")) // as make test sets it
	env.Setenv("TZ", "UTC")
	return nil
}

// code is the script command "code N program arg...": the program must exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// repo is the script command "repo DIR": DIR becomes a repository with one commit of the files in it.
func repo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: repo DIR")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	for _, words := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "--allow-empty", "-m", "first"}} {
		ts.Check(ts.Exec("git", append([]string{"-C", dir}, words...)...))
	}
}

// key is the script command "key NAME": it writes an Ed25519 key to NAME.pem, and its public half to NAME.pub.
func key(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: key NAME")
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	der, err = x509.MarshalPKIXPublicKey(public)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
}
