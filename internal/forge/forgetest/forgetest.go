// Package forgetest plays gh for tests: a program that keeps its pull requests in a file, and that can fail, or kill
// who called it, at any call.
package forgetest

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// stateVar names the file that the program keeps everything in.
const stateVar = "TRELLIS_TEST_GH"

// State is what the program knows. Calls count from 1.
type State struct {
	// PRs have the fields of gh pr view --json, and what gh api tells: reviewThreads, and required, names of checks. When
	// the branch of an open one is pushed to, its checks are those of another commit: none yet.
	PRs       []map[string]any  `json:"prs"`
	Issues    []map[string]any  `json:"issues"` // with the fields of gh issue list --json, and their label
	Labels    []string          `json:"labels"`
	Users     []string          `json:"users"`
	Logs      map[string]string `json:"logs"` // of failed steps, by job
	SignedOut bool              `json:"signed_out"`
	Calls     [][]string        `json:"calls"`
	FailFrom  int               `json:"fail_from"` // this call and all after it up to FailTo fail, with nothing done
	FailTo    int               `json:"fail_to"`
	Broken    int               `json:"broken"`    // at this call the answer is lost: all is done, and it fails
	Before    int               `json:"before"`    // at this call the caller is killed before anything is done
	After     int               `json:"after"`     // the same once it is done
	Elsewhere []string          `json:"elsewhere"` // repositories that the program does not know, by name
}

// GH is the program for one test.
type GH struct {
	Env  []string // what who calls it needs besides its own environment: PATH, and where the state is
	Dir  string   // holds the program
	file string
}

// Install makes this test's own gh. The test binary has to call Main first thing in TestMain.
func Install(t testing.TB, s State) *GH {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := &GH{Dir: t.TempDir()}
	g.file = filepath.Join(g.Dir, "state.json")
	if err := os.Symlink(self, filepath.Join(g.Dir, "gh")); err != nil {
		t.Fatal(err)
	}
	g.Env = []string{"PATH=" + g.Dir + string(os.PathListSeparator) + os.Getenv("PATH"), stateVar + "=" + g.file, "GORACE=atexit_sleep_ms=0"}
	g.Change(t, func(now *State) { *now = s })
	return g
}

// State is what it knows now.
func (g *GH) State(t testing.TB) (s State) {
	t.Helper()
	g.Change(t, func(now *State) { s = *now })
	return s
}

// Change changes what it knows.
func (g *GH) Change(t testing.TB, do func(*State)) {
	t.Helper()
	if err := change(g.file, func(s *State) int { do(s); return 0 }); err != nil {
		t.Fatal(err)
	}
}

// change reads and writes the state under a lock.
func change(file string, do func(*State) int) error {
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

// Main is the program: where the test binary is called by the name gh it does not return.
func Main() {
	file := os.Getenv(stateVar)
	if filepath.Base(os.Args[0]) != "gh" || file == "" {
		return
	}
	var out, said string
	code, kill := 0, false
	err := change(file, func(s *State) int {
		s.Calls = append(s.Calls, os.Args[1:])
		n := len(s.Calls)
		switch {
		case s.Before == n:
			kill = true
			return 0
		case s.SignedOut:
			said, code = "To get started with GitHub CLI, please run:  gh auth login", 4
			return 0
		case s.FailFrom > 0 && n >= s.FailFrom && n <= s.FailTo:
			said, code = "HTTP 502: Bad Gateway (https://api.github.com/graphql)", 1
			return 0
		}
		out, said, code = s.answer(os.Args[1:])
		kill = s.After == n
		if s.Broken == n {
			out, said, code = "", "error connecting to api.github.com", 1
		}
		return 0
	})
	if err != nil {
		said, code = err.Error(), 99
	}
	if kill {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	}
	fmt.Fprint(os.Stdout, out)
	fmt.Fprint(os.Stderr, said)
	os.Exit(code)
}

// answer does what the arguments say.
func (s *State) answer(args []string) (out, said string, code int) {
	if len(args) > 1 && args[0] == "auth" && args[1] == "status" {
		return "github.example: signed in as ann\n", "", 0
	}
	if len(args) < 2 {
		return "", "unknown command " + strings.Join(args, " "), 1
	}
	if slices.Contains(s.Elsewhere, repository()) {
		return "", "none of the git remotes configured for this repository point to a known GitHub host. To tell gh about a new GitHub host, please use `gh auth login`", 1
	}
	s.pushed()
	f := parse(args[2:])
	switch args[0] + " " + args[1] {
	case "api graphql":
		return s.graphql(f)
	case "run view":
		return s.Logs[f.of["--job"]], "", 0
	case "label create":
		return s.makeLabel(f)
	case "issue list":
		return s.issues(f)
	case "issue create":
		return s.createIssue(f)
	}
	if args[0] != "pr" {
		return "", "unknown command " + strings.Join(args, " "), 1
	}
	switch args[1] {
	case "list":
		return s.list(f)
	case "create":
		return s.create(f)
	}
	pr := s.find(f)
	if pr == nil {
		return "", "no pull requests found", 1
	}
	switch args[1] {
	case "view":
		return object(pr), "", 0
	case "edit":
		return s.edit(pr, f)
	}
	return "", "unknown command " + strings.Join(args, " "), 1
}

// flags are what was said by flags, and what without.
type flags struct {
	of    map[string]string
	plain []string
}

func parse(args []string) flags {
	f := flags{of: map[string]string{}}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if name == "--field" || name == "--raw-field" {
			name, value, _ = strings.Cut(value, "=")
		}
		if strings.HasPrefix(a, "--") {
			f.of[name] = value
		} else {
			f.plain = append(f.plain, a)
		}
	}
	return f
}

func (s *State) find(f flags) map[string]any {
	for _, pr := range s.PRs {
		if here(pr) && len(f.plain) > 0 && (fmt.Sprint(pr["number"]) == f.plain[0] || pr["url"] == f.plain[0] || pr["headRefName"] == f.plain[0]) {
			return pr
		}
	}
	return nil
}

func (s *State) list(f flags) (out, said string, code int) {
	list := []map[string]any{}
	for _, pr := range s.PRs {
		if here(pr) && (f.of["--head"] == "" || pr["headRefName"] == f.of["--head"]) && (f.of["--state"] == "all" || pr["state"] == "OPEN") {
			list = append(list, pr)
		}
	}
	return object(list), "", 0
}

func (s *State) create(f flags) (out, said string, code int) {
	body, err := io.ReadAll(os.Stdin)
	if err != nil || f.of["--body-file"] != "-" {
		return "", "no body", 1
	}
	head, base := f.of["--head"], f.of["--base"]
	sha := remote(head)
	if sha == "" || remote(base) == sha {
		return "", "pull request create failed: GraphQL: Head sha can't be blank, Base sha can't be blank, No commits between " + base + " and " + head, 1
	}
	for _, pr := range s.PRs {
		if here(pr) && pr["headRefName"] == head && pr["state"] == "OPEN" {
			return "", fmt.Sprintf("a pull request for branch %q into branch %q already exists:\n%s", head, base, pr["url"]), 1
		}
	}
	_, draft := f.of["--draft"]
	url := fmt.Sprintf("https://github.example/ann/%s/pull/%d", repository(), len(s.PRs)+1)
	s.PRs = append(s.PRs, map[string]any{"repository": repository(), "number": len(s.PRs) + 1, "url": url, "state": "OPEN", "isDraft": draft, "headRefName": head, "headRefOid": sha,
		"baseRefName": base, "title": f.of["--title"], "body": string(body), "mergedAt": nil, "mergeCommit": nil, "isCrossRepository": false})
	return url + "\n", "", 0
}

func (s *State) edit(pr map[string]any, f flags) (out, said string, code int) {
	for _, add := range []struct {
		flag, field string
		known       []string
	}{{"--add-label", "labels", s.Labels}, {"--add-reviewer", "reviewRequests", s.Users}} {
		name, ok := f.of[add.flag]
		if !ok {
			continue
		}
		if !slices.Contains(add.known, name) {
			return "", "'" + name + "' not found", 1
		}
		have, _ := pr[add.field].([]any)
		if !slices.Contains(have, any(name)) {
			pr[add.field] = append(have, name)
		}
	}
	if f.of["--body-file"] == "-" {
		body, err := io.ReadAll(os.Stdin)
		if err != nil {
			return "", err.Error(), 1
		}
		pr["body"] = string(body)
	}
	return fmt.Sprint(pr["url"]) + "\n", "", 0
}

// pushed has open pull requests end where their branches do.
func (s *State) pushed() {
	for _, pr := range s.PRs {
		head, _ := pr["headRefName"].(string)
		if pr["state"] != "OPEN" || !here(pr) {
			continue
		}
		if tip := remote(head); tip != "" && tip != pr["headRefOid"] {
			pr["headRefOid"], pr["statusCheckRollup"] = tip, nil
		}
	}
}

// graphql tells what is asked of a pull request that gh pr view does not tell.
func (s *State) graphql(f flags) (out, said string, code int) {
	pr := s.find(flags{plain: []string{f.of["number"]}})
	if pr == nil || f.of["owner"] != "{owner}" || f.of["name"] != "{repo}" || !strings.Contains(f.of["query"], "reviewThreads") {
		return "", "gh: Could not resolve to a PullRequest", 1
	}
	var checks []any
	list, _ := pr["statusCheckRollup"].([]any)
	required, _ := pr["required"].([]any)
	for _, c := range list {
		name := c.(map[string]any)["name"]
		checks = append(checks, map[string]any{"name": name, "isRequired": slices.Contains(required, name)})
	}
	threads := pr["reviewThreads"]
	if threads == nil {
		threads = []any{}
	}
	type m = map[string]any
	return object(m{"data": m{"repository": m{"pullRequest": m{"reviewThreads": m{"nodes": threads},
		"commits": m{"nodes": []any{m{"commit": m{"statusCheckRollup": m{"contexts": m{"nodes": checks}}}}}}}}}}), "", 0
}

// repository is the name of the one that the caller works in: that of its origin, or greet, which tests have most.
func repository() string {
	out, err := exec.Command("git", "remote", "get-url", "origin").Output()
	name := strings.TrimSuffix(filepath.Base(strings.TrimSpace(string(out))), ".git")
	if err != nil || slices.Contains([]string{"origin", "bare", "remote", "."}, name) {
		return "greet"
	}
	return name
}

// here reports whether a pull request is one of the caller's repository.
func here(pr map[string]any) bool { return pr["repository"] == nil || pr["repository"] == repository() }

// remote is the tip of a branch of origin.
func remote(branch string) string {
	out, err := exec.Command("git", "ls-remote", "origin", "refs/heads/"+branch).Output()
	if err != nil {
		return ""
	}
	sha, _, _ := strings.Cut(string(out), "\t")
	return sha
}

func object(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return strconv.Quote(err.Error())
	}
	return string(data)
}
