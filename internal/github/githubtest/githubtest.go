// Package githubtest imitates gh for tests: a program that keeps its pull requests in a file, and that can fail or kill its
// caller at any call. It also imitates GitHub for the real gh of this machine, from a file of the same kind, so that the same
// tests, and the contract of package github, can be run against both.
package githubtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/programtest"
)

// stateVar names the file with the program's state.
const stateVar = "TRELLIS_TEST_GH"

// State is the state of the program. Calls count from 1.
type State struct {
	// PRs have the fields of gh pr view --json, and those of gh api: reviewThreads, and required, which has names of checks.
	// When the branch of an open one is pushed to, its checks are removed: the new commit has none yet.
	PRs       []map[string]any  `json:"prs"`
	Issues    []map[string]any  `json:"issues"` // number, url, state, title, body, label, and pull_request if it is one
	Labels    []string          `json:"labels"`
	Users     []string          `json:"users"`
	Logs      map[string]string `json:"logs"`     // of failed steps, by job
	Stepless  bool              `json:"stepless"` // there are only logs of whole jobs
	SignedOut bool              `json:"signed_out"`
	Calls     [][]string        `json:"calls"`
	FailFrom  int               `json:"fail_from"` // the calls from this one to FailTo fail, with nothing done
	FailTo    int               `json:"fail_to"`
	Fault     string            `json:"fault"`     // what all calls fail with: 401, 403, 429, 502, away (fake only), cut (half an answer), hang; "": nothing
	Lost      string            `json:"lost"`      // the answer to the next creation of a pull request or issue is lost, by cut or hang
	Unknown   bool              `json:"unknown"`   // the repository doesn't exist, or the account may not see it
	Bare      string            `json:"bare"`      // path of the repository, if it is not the caller's origin
	Before    int               `json:"before"`    // at this call the caller is killed before anything is done
	After     int               `json:"after"`     // at this call the caller is killed after it was done
	Elsewhere []string          `json:"elsewhere"` // repositories that the program does not know, by name
}

// GH is the gh of one test.
type GH struct {
	Env    []string // what callers need besides their own environment: PATH, and the path of the state
	Dir    string   // holds the program
	Home   string   // web address of the repository
	file   string
	config string // of the real gh: the directory with its accounts
}

// program returns the fake gh, which is built when a test first needs it.
var program = sync.OnceValues(func() (string, error) { return programtest.Kept("./internal/github/githubtest/gh") })

// Install installs a fake gh for this test.
func Install(t testing.TB, s State) *GH {
	t.Helper()
	built, err := program()
	if err != nil {
		t.Fatal(err)
	}
	g := &GH{Dir: t.TempDir(), Home: "https://github.example/ann/greet"}
	g.file = filepath.Join(g.Dir, "state.json")
	if err := os.Symlink(built, filepath.Join(g.Dir, "gh")); err != nil {
		t.Fatal(err)
	}
	g.Env = []string{"PATH=" + g.Dir + string(os.PathListSeparator) + os.Getenv("PATH"), stateVar + "=" + g.file}
	g.Change(t, func(now *State) { *now = s })
	return g
}

// State returns the current state.
func (g *GH) State(t testing.TB) (s State) {
	t.Helper()
	g.Change(t, func(now *State) { s = *now })
	return s
}

// Change changes the state.
func (g *GH) Change(t testing.TB, do func(*State)) {
	t.Helper()
	var s State
	if err := updateState(g.file, func(now *State) { do(now); s = *now }); err != nil {
		t.Fatal(err)
	}
	if g.config != "" {
		g.account(t, !s.SignedOut)
	}
}

// updateState reads and writes the state while holding a lock.
func updateState(file string, do func(*State)) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	var s State
	data, err := io.ReadAll(f)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return err
	}
	do(&s)
	if data, err = json.MarshalIndent(s, "", "\t"); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return err
}

// Asked reports whether this process was started as the gh of a test.
func Asked() bool { return filepath.Base(os.Args[0]) == "gh" && os.Getenv(stateVar) != "" }

// Main runs the program. It does not return.
func Main() {
	var a answer
	kill := false
	err := updateState(os.Getenv(stateVar), func(s *State) {
		s.Calls = append(s.Calls, os.Args[1:])
		n := len(s.Calls)
		if s.Before == n {
			kill = true
			return
		}
		if a = s.faultAnswer(n, os.Args[1:]); a.code == 0 && a.lost == "" {
			a = s.answer(os.Args[1:])
			kill = s.After == n
		}
	})
	if err != nil {
		a = failure(err.Error())
	}
	if kill {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	}
	a.exit()
}

// flags are parsed arguments: flags by name, and the positional ones.
type flags struct {
	named      map[string]string
	positional []string
}

func parse(args []string) flags {
	f := flags{named: map[string]string{}}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if name == "--field" || name == "--raw-field" {
			name, value, _ = strings.Cut(value, "=")
		}
		if strings.HasPrefix(a, "--") {
			f.named[name] = value
		} else {
			f.positional = append(f.positional, a)
		}
	}
	return f
}

func (s *State) findPR(which string) m {
	for _, pr := range s.PRs {
		if s.owns(pr) && (fmt.Sprint(pr["number"]) == which || pr["url"] == which || pr["headRefName"] == which) {
			return pr
		}
	}
	return nil
}

// openPR creates a pull request; said is the error message if it can't.
func (s *State) openPR(head, base, title, body string, draft bool) (pr m, said string) {
	sha := s.tip(head)
	if sha == "" || s.tip(base) == sha {
		return nil, "Head sha can't be blank, Base sha can't be blank, No commits between " + base + " and " + head
	}
	pr = m{"repository": s.repository(), "number": len(s.PRs) + 1, "url": fmt.Sprintf("%s/pull/%d", s.home(), len(s.PRs)+1), "state": "OPEN", "isDraft": draft, "headRefName": head, "headRefOid": sha,
		"baseRefName": base, "title": title, "body": body, "mergedAt": nil, "mergeCommit": nil, "isCrossRepository": false}
	s.PRs = append(s.PRs, pr)
	return pr, ""
}

// updateHeads moves open pull requests to the current tips of their branches.
func (s *State) updateHeads() {
	for _, pr := range s.PRs {
		head, _ := pr["headRefName"].(string)
		if pr["state"] != "OPEN" || !s.owns(pr) {
			continue
		}
		if tip := s.tip(head); tip != "" && tip != pr["headRefOid"] {
			pr["headRefOid"], pr["statusCheckRollup"] = tip, nil
		}
	}
}

// repository returns the name of the caller's repository: that of its origin, or greet, which most tests use.
func (s *State) repository() string {
	if s.Bare != "" {
		return "greet"
	}
	return ofOrigin()
}

// ofOrigin returns the name of the caller's repository, from its remote.
func ofOrigin() string {
	name := strings.TrimSuffix(filepath.Base(remotes()["origin"]), ".git")
	if slices.Contains([]string{"origin", "bare", "remote", "."}, name) {
		return "greet"
	}
	return name
}

// remotes returns the addresses of the caller's remotes by name.
var remotes = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	out, err := exec.Command("git", "config", "--get-regexp", `^remote\..*\.url$`).Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() == 1 {
		return all // there is none
	} else if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(out)) {
		key, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[strings.TrimSuffix(strings.TrimPrefix(key, "remote."), ".url")] = address
	}
	return all
})

// home returns the web address of the repository.
func (s *State) home() string {
	if s.Bare != "" {
		return hubHome
	}
	return "https://github.example/ann/" + s.repository()
}

// owns reports whether a pull request is one of the caller's repository.
func (s *State) owns(pr m) bool { return pr["repository"] == nil || pr["repository"] == s.repository() }

// tip returns the tip of a branch of the repository. For a local directory that takes one git process, for a remote four.
func (s *State) tip(branch string) string {
	at := s.Bare
	if at == "" {
		at = remotes()["origin"]
	}
	ask := []string{"ls-remote", at, "refs/heads/" + branch}
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		ask = []string{"-C", at, "rev-parse", "--verify", "--quiet", "refs/heads/" + branch}
	}
	out, err := exec.Command("git", ask...).Output()
	if err != nil {
		return ""
	}
	sha, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\t")
	return sha
}
