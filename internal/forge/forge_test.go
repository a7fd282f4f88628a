package forge_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/forge/forgetest"
)

func TestMain(m *testing.M) {
	forgetest.Main()
	os.Exit(m.Run())
}

// checkout is a clone whose origin has the branch work, one commit above main.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "repo")
	for _, words := range []string{"init -q --bare -b main ../bare", "init -q -b main", "remote add origin ../bare", "commit -q --allow-empty -m first", "push -q origin main",
		"checkout -q -b work", "commit -q --allow-empty -m second", "push -q origin work"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, strings.Fields(words)...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", words, err, out)
		}
	}
	return dir
}

func TestCreateFindEdit(t *testing.T) {
	gh := forgetest.Install(t, forgetest.State{Labels: []string{"trellis"}, Users: []string{"bob"}})
	f := &forge.Forge{Dir: checkout(t), Env: gh.Env}
	ctx := context.Background()
	if pr, err := f.Find(ctx, "work"); pr != nil || err != nil {
		t.Fatalf("got %+v, %v before there is one", pr, err)
	}
	text := "--title $(touch x) `id`\n\"quoted\"\n"
	made, err := f.Create(ctx, forge.New{Title: "-n \"$HOME\"", Body: text, Base: "main", Head: "work", Draft: true})
	if err != nil {
		t.Fatal(err)
	}
	found, err := f.Find(ctx, "work")
	if err != nil || found.Number != 1 || found.Number != made.Number || found.URL != made.URL || !found.Draft || found.State != forge.Open || found.Body != text || found.Title != "-n \"$HOME\"" ||
		found.BaseRef != "main" || len(found.HeadSHA) != 40 {
		t.Fatalf("got %+v, made %+v, %v", found, made, err)
	}
	for name, do := range map[string]func() error{
		"body":     func() error { return f.EditBody(ctx, 1, "new") },
		"label":    func() error { return f.Label(ctx, 1, "trellis") },
		"reviewer": func() error { return f.AskReview(ctx, 1, "bob") },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if pr := gh.State(t).PRs[0]; pr["body"] != "new" || len(pr["labels"].([]any)) != 1 || len(pr["reviewRequests"].([]any)) != 1 {
		t.Errorf("got %v", pr)
	}
	var failed *forge.Error
	if err := f.Label(ctx, 1, "nope"); !errors.As(err, &failed) || failed.Code != 1 || !strings.Contains(err.Error(), "'nope' not found") {
		t.Errorf("got %v of a label that is not there", err)
	}
}

// The answer is lost, or another one was faster: there is one pull request all the same.
func TestCreateTwice(t *testing.T) {
	gh := forgetest.Install(t, forgetest.State{Broken: 1})
	f := &forge.Forge{Dir: checkout(t), Env: gh.Env}
	for range 2 {
		pr, err := f.Create(context.Background(), forge.New{Title: "T", Body: "B", Base: "main", Head: "work"})
		if err != nil || pr.Number != 1 {
			t.Fatalf("got %+v, %v", pr, err)
		}
	}
	if list := gh.State(t).PRs; len(list) != 1 {
		t.Errorf("got %v", list)
	}
}

func TestFindTheRightOne(t *testing.T) {
	pr := func(n int, state string, cross bool) map[string]any {
		return map[string]any{"number": n, "url": "https://github.example/pull/1", "state": state, "headRefName": "work", "isCrossRepository": cross}
	}
	for name, c := range map[string]struct {
		list []map[string]any
		want int
	}{
		"open before newer":  {[]map[string]any{pr(1, "OPEN", false), pr(2, "MERGED", false)}, 1},
		"newest":             {[]map[string]any{pr(3, "CLOSED", false), pr(4, "MERGED", false)}, 4},
		"none of a fork":     {[]map[string]any{pr(3, "CLOSED", false), pr(4, "OPEN", true)}, 3},
		"only one of a fork": {[]map[string]any{pr(4, "OPEN", true)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			gh := forgetest.Install(t, forgetest.State{PRs: c.list})
			got, err := (&forge.Forge{Dir: t.TempDir(), Env: gh.Env}).Find(context.Background(), "work")
			if err != nil || (got == nil) != (c.want == 0) || got != nil && got.Number != c.want {
				t.Errorf("got %+v, %v, want %d", got, err, c.want)
			}
		})
	}
}

func TestWhatCanBeWrong(t *testing.T) {
	ctx := context.Background()
	f := &forge.Forge{Dir: t.TempDir(), Env: []string{"PATH=" + t.TempDir()}}
	if _, err := f.Find(ctx, "work"); !errors.Is(err, forge.ErrNoProgram) {
		t.Errorf("got %v without a program", err)
	}
	f.Env = forgetest.Install(t, forgetest.State{SignedOut: true}).Env
	if _, err := f.Create(ctx, forge.New{Head: "work"}); !errors.Is(err, forge.ErrNotSignedIn) || !strings.Contains(err.Error(), "gh auth login") {
		t.Errorf("got %v when nobody is signed in", err)
	}
	if err := f.SignedIn(ctx); !errors.Is(err, forge.ErrNotSignedIn) {
		t.Errorf("got %v when nobody is signed in", err)
	}
	f.Env = forgetest.Install(t, forgetest.State{}).Env
	if err := f.SignedIn(ctx); err != nil {
		t.Errorf("got %v when somebody is signed in", err)
	}
	for name, script := range map[string]string{
		"no JSON":    "echo no",
		"no number":  `echo '[{"url": "https://x/1", "state": "OPEN", "headRefName": "work"}]'`,
		"no address": `echo '[{"number": 1, "url": "javascript:x", "state": "OPEN", "headRefName": "work"}]'`,
		"no state":   `echo '[{"number": 1, "url": "https://x/1", "state": "odd", "headRefName": "work"}]'`,
		"too much":   "head -c 9000000 /dev/zero",
		"too slow":   "sleep 60",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "gh"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		f := &forge.Forge{Dir: dir, Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, Wall: time.Second}
		if pr, err := f.Find(ctx, "work"); err == nil {
			t.Errorf("%s: got %+v", name, pr)
		}
	}
}
