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

// token is what the real gh shows the hub.
const token = "gho_dummy"

// Real is the gh of this machine, with settings of its own, that asks a hub on loopback. Calls, FailFrom, FailTo, Before
// and After of the state mean nothing to it. Where there is no gh the test skips; in CI that is a failure.
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
	proxy, cache := startHub(t, g.file, root), t.TempDir() // gh keeps logs, by the number of the run
	g.Env = []string{"PATH=" + g.Dir + string(os.PathListSeparator) + os.Getenv("PATH"), "GH_CONFIG_DIR=" + g.config, "TMPDIR=" + cache, "XDG_CACHE_HOME=" + cache,
		"http_proxy=" + proxy, "https_proxy=" + proxy, "HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "no_proxy=", "NO_PROXY="}
	g.Change(t, func(now *State) { *now = s })
	return g
}

// installed is the first gh in PATH that says so itself, "" when there is none: tests put others before it.
var installed = sync.OnceValue(func() string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		program := filepath.Join(dir, "gh")
		if out, err := exec.Command(program, "--version").Output(); err == nil && strings.HasPrefix(string(out), "gh version ") {
			return program
		}
	}
	return ""
})

// account signs in or out. gh knows github.com as well, which no request is to reach.
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
		return // some gh may be reading it
	}
	host := "%s:\n    oauth_token: %s\n    user: ann\n    git_protocol: https\n"
	text := fmt.Sprintf(host, "github.com", "gho_other") + fmt.Sprintf(host, hubHost, token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Host makes a bare repository the one that gh knows, and the origin of a checkout.
func (g *GH) Host(t testing.TB, dir, bare string) {
	t.Helper()
	if g.config == "" {
		return // the fake asks whatever is the origin
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
