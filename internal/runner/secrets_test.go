package runner_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"

	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// tokenEnd returns a token without its first two letters, so that neither this file nor the script of a rehearsal contains the token.
func tokenEnd() string {
	r := rand.New(rand.NewPCG(3, 9))
	b := []byte("p_")
	for range 36 {
		b = append(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[r.IntN(62)])
	}
	return string(b)
}

// No commit contains a secret, even if an agent or a hook made the commit, or a file of the work allows the secret.
func TestSecretsAreNotCommitted(t *testing.T) {
	t.Parallel()
	const word = "staple correct battery"
	token := "gh" + tokenEnd()
	leak := "printf '%s%s # gitleaks:allow\\n' gh " + tokenEnd() + " > conf.txt"
	own := " && git add conf.txt && git commit -q -m mine"
	agents := func(implement, debug string) string {
		return "implement: [{run: [\"" + strings.ReplaceAll(implement, `\`, `\\`) + "\"], answer: done}]\ncheck: [{answer: fine}]\ndebug: [{run: [\"" + debug + "\"], answer: hm}]\n" + runnertest.Met
	}
	const mended, stirs, idle = "echo from the environment > conf.txt", "date +%N >> notes.txt", "true"
	for name, c := range soak.Rows(t, map[string]struct {
		roles string
		base  map[string]string // committed before the run
		files map[string]string // there, and not committed
		place string            // in the failure or the report
		code  trellis.Code
	}{
		"mended in debug":               {roles: agents(leak, mended)},
		"never mended":                  {roles: agents(leak, stirs), place: "conf.txt:1 (github-pat)", code: trellis.SecretFound},
		"never touched":                 {roles: agents(leak, idle), place: "conf.txt:1 (github-pat)", code: trellis.SecretFound},
		"with leave of its own":         {roles: agents(leak+" && printf '[[allowlists]]\\npaths = [\\047conf.txt\\047]\\n' > .gitleaks.toml && echo conf.txt:github-pat:1 > .gitleaksignore && echo '* -diff' > .gitattributes", stirs), place: "conf.txt:1 (github-pat)", code: trellis.SecretFound},
		"committed by the agent":        {roles: agents(leak+own, stirs), place: "conf.txt:1 (github-pat)", code: trellis.SecretFound},
		"committed, then mended":        {roles: agents(leak+own, mended)},
		"committed, and then taken out": {roles: agents(leak+own+" && "+mended+own, stirs), place: "conf.txt:1 (github-pat) in "},
		"in the message of a commit":    {roles: agents("echo x > conf.txt && git add conf.txt && git commit -q -m $(printf '%s%s' gh "+tokenEnd()+")", stirs), place: "commit message:1 (github-pat) in "},
		"brought by a hook": {roles: agents("echo x > notes.txt", stirs), place: "conf.txt:1 (github-pat)", code: trellis.SecretFound,
			files: map[string]string{".git/hooks/pre-commit": "#!/bin/sh\n" + leak + "\ngit add conf.txt\n"}},
		"with leave of the base": {roles: agents(leak, stirs), base: map[string]string{".gitleaks.toml": "[[allowlists]]\npaths = ['^conf.txt$']\n"}},
		"moved, or copied":       {roles: agents(leak, stirs), base: map[string]string{"old/conf.txt": "x = " + token + "\n"}},
		"a value of the environment": {roles: agents("echo 'correct horse battery' > conf.txt && sed -i 's/$/ staple/' conf.txt", stirs),
			place: "conf.txt:1 (known-secret)", code: trellis.SecretFound},
		"a value of .env": {roles: agents("cut -d= -f2 .env > conf.txt", stirs), files: map[string]string{".env": "DB_PASSWORD=" + word + "\n"},
			place: "conf.txt:1 (known-secret)", code: trellis.SecretFound},
		"what is ordinary in .env": {roles: agents("tail -n 1 .env > conf.txt", stirs), files: map[string]string{".env": "DB_PASSWORD=" + word + "\nPORT=8080\n"}},
	}, "mended in debug", "committed by the agent", "brought by a hook", "a value of .env", "with leave of its own", "in the message of a commit") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles:\n  "+strings.ReplaceAll(c.roles, "\n", "\n  ")+"\n")
			for path, text := range c.base {
				w.Write(path, text)
			}
			w.Write(".gitignore", ".env\n")
			w.Git("add", "-A")
			w.Git("commit", "-q", "-m", "base")
			for path, text := range c.files {
				w.Write(path, text)
				if err := os.Chmod(filepath.Join(w.Dir, path), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			w.Site.Config.Limits.Rounds = 2
			w.Site.Config.Worktree.Copy = []string{".env"}
			w.Site.Secrets = []string{strings.Join([]string{"correct", "horse", "battery", "staple"}, " ")}
			dir := w.Hand("02-01-bye", lyingPRD)
			res := w.Start(dir)
			want := map[bool]trellis.Status{true: trellis.Review, false: trellis.Failed}[c.code == ""]
			if res.Status != want || c.code != "" && (res.Failure == nil || res.Failure.Code != string(c.code)) {
				t.Fatalf("got %s (%v), want %s %s", res.Status, res.Failure, want, c.code)
			}
			branch := w.Task(dir).Branch
			if got, want := w.Git("rev-list", "--count", "main.."+branch), map[bool]string{true: "1", false: "0"}[c.code == ""]; got != want {
				t.Errorf("the branch has %s commits, want %s", got, want)
			}
			if said := w.Git("log", "--format=%B", "main.."+branch); strings.Contains(said, token) {
				t.Errorf("a message has it: %s", said)
			}
			if report := w.Read(".trellis/tasks/02-01-bye/report.md"); !strings.Contains(report, c.place) {
				t.Errorf("the report does not say %q:\n%s", c.place, report)
			}
			byOthers := strings.Contains(c.roles, "git commit") || c.files[".git/hooks/pre-commit"] != ""
			if kept := w.Git("for-each-ref", "refs/trellis/backup"); byOthers != (kept != "") {
				t.Errorf("kept is %q: what nobody else commits is not committed for a moment, and what others committed is kept", kept)
			}
			if c.base == nil {
				nowhere(t, filepath.Join(w.Dir, ".trellis"), token)
			}
		})
	}
}

// A secret in a task's title is masked in the subject of the commit.
func TestSecretInTitle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{run: [\"echo x > notes.txt\"], answer: done}]\n  check: [{answer: fine}]\n  "+runnertest.Met+"\n")
	word := strings.Join([]string{"correct", "horse", "battery"}, "-")
	w.Site.Secrets = []string{word}
	dir := w.Hand("02-01-bye", "# Sign in with "+word+"\n\n## Acceptance Criteria\n\n- [ ] it says bye\n")
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s (%v)", res.Status, res.Failure)
	}
	if got, want := w.Git("log", "-1", "--format=%s", w.Task(dir).Branch), "feat: Sign in with ***"; got != want {
		t.Errorf("the subject is %q, want %q", got, want)
	}
}

// nowhere checks that no file below a folder contains a value.
func nowhere(t *testing.T, root, value string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), value) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
