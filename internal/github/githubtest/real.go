package githubtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// token is the token that the real gh sends to the hub.
const token = "gho_dummy"

// Real returns the gh of this machine, with separate settings, connected to a hub on loopback. Calls, FailFrom, FailTo, Before
// and After of the state have no effect. If gh is missing, the test is skipped; in CI it fails.
func Real(t testing.TB, s State) *GH {
	t.Helper()
	program := installed()
	if program == "" && os.Getenv("CI") != "" {
		t.Fatal("there is no gh, which CI needs: scripts/setup.sh installs it")
	} else if program == "" {
		t.Skip("there is no gh: scripts/setup.sh installs it")
	}
	g := &GH{Dir: t.TempDir(), Home: hubHome, config: t.TempDir()}
	g.file = filepath.Join(t.TempDir(), "state.json")
	if err := os.Symlink(program, filepath.Join(g.Dir, "gh")); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "ann"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Bare = filepath.Join(root, "ann", "greet.git")
	proxy, cache := startHub(t, g.file, root), t.TempDir() // gh caches logs by the number of the run
	g.Env = []string{"PATH=" + g.Dir + string(os.PathListSeparator) + os.Getenv("PATH"), "GH_CONFIG_DIR=" + g.config, "TMPDIR=" + cache, "XDG_CACHE_HOME=" + cache,
		"http_proxy=" + proxy, "https_proxy=" + proxy, "HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "no_proxy=", "NO_PROXY="}
	g.Change(t, func(now *State) { *now = s })
	return g
}

// installed returns the first gh in PATH that is a real one, "" if there is none: tests put fakes before it.
var installed = sync.OnceValue(func() string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		program := filepath.Join(dir, "gh")
		if out, err := exec.Command(program, "--version").Output(); err == nil && strings.HasPrefix(string(out), "gh version ") {
			return program
		}
	}
	return ""
})

// account signs gh in or out. gh is given an account at github.com too, which no request may reach.
func (g *GH) account(t testing.TB, in bool) {
	t.Helper()
	file := filepath.Join(g.config, "hosts.yml")
	if !in {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return
	}
	if _, err := os.Stat(file); err == nil {
		return // a gh may be reading it
	}
	host := "%s:\n    oauth_token: %s\n    user: ann\n    git_protocol: https\n"
	text := fmt.Sprintf(host, "github.com", "gho_other") + fmt.Sprintf(host, hubHost, token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Host makes a bare repository the one that gh knows, and the origin of the checkout dir.
func (g *GH) Host(t testing.TB, dir, bare string) {
	t.Helper()
	if g.config == "" {
		return // the fake uses whatever the origin is
	}
	var link string
	g.Change(t, func(s *State) { link = s.Bare })
	if err := os.Symlink(bare, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "remote", "set-url", "origin", hubHome+".git")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git remote set-url: %v\n%s", err, out)
	}
}
