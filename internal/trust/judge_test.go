package trust_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trust"
)

// file is the only file of the subject in these tests. Each line is a command or a protection.
const file = "tasks/x/run.txt"

func subject(files ...string) trust.Subject {
	if len(files) == 0 {
		files = []string{file}
	}
	return trust.Subject{Name: "x", Files: files, Read: func(file string, data []byte) (items []trust.Item, more []string) {
		n := 0
		for line := range strings.Lines(string(data)) {
			n++
			kind := trust.Command
			if strings.HasPrefix(line, "sandbox: ") {
				kind = trust.Protection
			}
			if line = strings.TrimSpace(line); line != "" {
				items = append(items, trust.Item{Kind: kind, Text: line, File: file, Line: n})
			}
		}
		return items, nil
	}}
}

// clone is the repository of one person, with their ledger.
type clone struct {
	t      *testing.T
	dir    string
	who    string
	env    []string
	ledger *trust.Ledger
	judge  *trust.Judge
}

// person returns a repository without commits or remotes.
func person(t *testing.T, who string) *clone {
	t.Helper()
	c := &clone{t: t, dir: filepath.Join(t.TempDir(), who), who: who, ledger: ledgerIn(t)}
	c.env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_EDITOR=:",
		"GIT_AUTHOR_NAME="+who, "GIT_AUTHOR_EMAIL="+who+"@example.com", "GIT_COMMITTER_NAME="+who, "GIT_COMMITTER_EMAIL="+who+"@example.com")
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.git("init", "-q", "-b", "main")
	return c
}

// team returns the clones of two people who share a remote with a main branch.
func team(t *testing.T) (ada, bob *clone) {
	t.Helper()
	ada = person(t, "ada")
	ada.commit("README", "hello\n")
	remote := filepath.Join(t.TempDir(), "remote.git")
	ada.git("clone", "-q", "--bare", ada.dir, remote)
	ada, bob = person(t, "ada"), person(t, "bob")
	ada.cloned(remote)
	bob.cloned(remote)
	return ada, bob
}

// copy returns a copy of the clone in another folder, with an empty ledger.
func (c *clone) copy(t *testing.T) *clone {
	t.Helper()
	to := *c
	to.t, to.ledger, to.dir = t, ledgerIn(t), filepath.Join(t.TempDir(), c.who)
	if err := os.CopyFS(to.dir, os.DirFS(c.dir)); err != nil {
		t.Fatal(err)
	}
	return &to
}

func (c *clone) cloned(remote string, options ...string) {
	c.t.Helper()
	os.RemoveAll(c.dir)
	cmd := exec.Command("git", append(append([]string{"clone", "-q"}, options...), "file://"+remote, c.dir)...)
	cmd.Env = c.env
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("git clone: %v\n%s", err, out)
	}
	c.judge = nil
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: git %s: %v\n%s", c.who, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c *clone) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) commit(name, text string) string {
	c.t.Helper()
	c.write(name, text)
	c.git("add", name)
	c.git("commit", "-qm", "change "+name)
	return c.git("rev-parse", "HEAD")
}

// fresh returns a new judge, as a new process would have it.
func (c *clone) fresh() *trust.Judge {
	c.t.Helper()
	repo, err := git.Open(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	repo.Env = c.env
	c.judge = &trust.Judge{Repo: repo, Ledger: c.ledger}
	return c.judge
}

func (c *clone) look(files ...string) trust.Verdict {
	c.t.Helper()
	v, err := c.fresh().Subject(context.Background(), subject(files...))
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

func (c *clone) trusts(why string, files ...string) {
	c.t.Helper()
	if v := c.look(files...); !v.Trusted() {
		c.t.Errorf("%s: asked about %+v", why, v.Foreign)
	}
}

// asks checks that exactly these texts are foreign.
func (c *clone) asks(why string, texts ...string) trust.Verdict {
	c.t.Helper()
	v := c.look()
	var got []string
	for _, f := range v.Foreign {
		got = append(got, f.Item.Text)
	}
	if strings.Join(got, ";") != strings.Join(texts, ";") {
		c.t.Errorf("%s: foreign is %q, want %q", why, got, texts)
	}
	return v
}

// push pushes HEAD to a branch, and fetches it in the other clone.
func (c *clone) push(branch string, other *clone) {
	c.t.Helper()
	c.git("push", "-qf", "origin", "HEAD:refs/heads/"+branch)
	other.git("fetch", "-q")
}

func TestWhatAPersonMakesIsTrusted(t *testing.T) {
	lone := person(t, "ada")
	lone.commit("README", "hello\n")
	member, _ := team(t)
	for name, do := range map[string]func(*clone){
		"untracked":             func(c *clone) { c.write(file, "mine\n") },
		"in the index":          func(c *clone) { c.write(file, "mine\n"); c.git("add", file) },
		"committed":             func(c *clone) { c.commit(file, "mine\n") },
		"committed on a branch": func(c *clone) { c.git("checkout", "-qb", "topic"); c.commit(file, "mine\n") },
		"amended": func(c *clone) {
			c.git("checkout", "-qb", "topic")
			c.commit(file, "yours\n")
			c.write(file, "mine\n")
			c.git("commit", "-qa", "--amend", "-m", "x")
		},
		"rebased": func(c *clone) {
			c.git("checkout", "-qb", "topic")
			c.commit(file, "mine\n")
			c.git("checkout", "-q", "main")
			c.commit("other", "x\n")
			c.git("rebase", "-q", "main", "topic")
		},
		"picked": func(c *clone) {
			c.git("checkout", "-qb", "topic")
			c.commit(file, "mine\n")
			c.git("checkout", "-qb", "second", "main")
			c.commit("other", "x\n")
			c.git("cherry-pick", "topic")
		},
		"changed on the disk": func(c *clone) {
			c.git("checkout", "-qb", "topic")
			c.commit(file, "old\n")
			c.write(file, "old\nmine\n")
		},
		"in another worktree": func(c *clone) {
			c.git("worktree", "add", "-qb", "topic", c.dir+"-second")
			second := *c
			second.dir += "-second"
			second.commit(file, "mine\n")
			c.git("merge", "-q", "topic")
		},
		"detached": func(c *clone) { c.git("checkout", "-q", "--detach"); c.commit(file, "mine\n") },
		"stashed": func(c *clone) {
			c.git("checkout", "-qb", "topic")
			c.commit(file, "old\n")
			c.write(file, "mine\n")
			c.git("stash", "-q")
			c.git("stash", "pop", "-q")
		},
		"merged with a conflict": func(c *clone) {
			c.git("checkout", "-qb", "topic")
			c.commit(file, "a\n")
			c.git("checkout", "-qb", "second", "main")
			c.commit(file, "b\n")
			exec.Command("git", "-C", c.dir, "merge", "-q", "topic").Run()
			c.commit(file, "a\nb\nboth\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone := lone.copy(t)
			do(alone)
			alone.trusts("alone")
			ada := member.copy(t)
			do(ada)
			ada.trusts("in a team")
		})
	}
}

func TestUnbornRepository(t *testing.T) {
	c := person(t, "ada")
	c.write(file, "mine\n")
	c.trusts("no commit yet")
	c.commit(file, "mine\nmore\n")
	c.trusts("the first commit")
}

func TestWhatAStrangerMadeIsNot(t *testing.T) {
	member, bob := team(t)
	bob.git("checkout", "-qb", "evil")
	bob.write(file, "theirs\n")
	bob.git("add", file)
	bob.git("commit", "-qm", "second", "--author", "ada <ada@example.com>") // anybody can write any author's name
	bob.push("evil", member)
	for name, do := range map[string]func(*clone){
		"checked out": func(c *clone) { c.git("checkout", "-q", "evil") },
		"pulled":      func(c *clone) { c.git("pull", "-q", "origin", "evil") },
		"merged":      func(c *clone) { c.commit("own", "x\n"); c.git("merge", "-q", "--no-edit", "origin/evil") },
		"pulled, merged": func(c *clone) {
			c.commit("own", "x\n")
			c.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "evil")
		},
		"rebased on": func(c *clone) {
			c.git("checkout", "-qb", "topic")
			c.commit("own", "x\n")
			c.git("rebase", "-q", "origin/evil")
		},
		"rebased": func(c *clone) {
			c.git("checkout", "-q", "evil")
			c.git("branch", "-f", "main", ownCommit(c))
			c.git("rebase", "-q", "main")
		},
		"picked":   func(c *clone) { c.commit("own", "x\n"); c.git("cherry-pick", "origin/evil") },
		"squashed": func(c *clone) { c.git("merge", "-q", "--squash", "origin/evil"); c.git("commit", "-qm", "mine") },
		"amended": func(c *clone) {
			c.git("checkout", "-q", "evil")
			c.write("own", "x\n")
			c.git("add", "own")
			c.git("commit", "-q", "--amend", "--reset-author", "-m", "mine")
		},
		"reset, untracked": func(c *clone) {
			c.git("checkout", "-q", "evil")
			c.git("reset", "-q", "main~0")
			c.git("branch", "-D", "-q", "-r", "origin/evil")
		},
		"reset and committed": func(c *clone) {
			c.git("checkout", "-q", "evil")
			c.git("reset", "-q", "--soft", "main")
			c.git("commit", "-qm", "mine")
		},
		"taken as files": func(c *clone) { c.git("checkout", "-q", "origin/evil", "--", "tasks"); c.git("reset", "-q") },
		"fetched by address, picked": func(c *clone) {
			c.git("update-ref", "-d", "refs/remotes/origin/evil")
			c.commit("own", "x\n")
			c.git("fetch", "-q", c.git("config", "remote.origin.url"), "evil")
			c.git("cherry-pick", "FETCH_HEAD")
			c.git("fetch", "-q", "origin", "main") // removes evil from FETCH_HEAD
		},
		"applied as a mail": func(c *clone) {
			patch := c.git("format-patch", "--stdout", "-1", "origin/evil")
			c.git("update-ref", "-d", "refs/remotes/origin/evil")
			c.write("../patch", patch+"\n")
			c.git("am", "-q", "../patch")
		},
		"its reflog says commit": func(c *clone) { // the branch has that name
			c.git("branch", "commit", "origin/evil")
			c.git("merge", "-q", "commit")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ada := member.copy(t)
			do(ada)
			v := ada.asks(name, "theirs")
			if !errors.Is(v.Err(), trust.ErrUntrusted) {
				t.Errorf("the error is %v", v.Err())
			}
			ada.asks("looked at again", "theirs")
		})
	}
}

// ownCommit returns a commit of c's own on top of its main branch.
func ownCommit(c *clone) string {
	tree := c.git("rev-parse", "main^{tree}")
	return c.git("commit-tree", "-p", "main", "-m", "own", tree)
}

// A stranger's file counts as the stranger's at another path too, if its content is the same.
func TestMovedFiles(t *testing.T) {
	ada, bob := team(t)
	bob.commit("tasks/y/run.txt", "theirs\n")
	bob.push("evil", ada)
	ada.write(file, "theirs\n")
	ada.asks("moved by hand", "theirs")
	ada.ledger = ledgerIn(t)
	ada.commit("tasks/z/run.txt", "mine\n")
	ada.write(file, "mine\n")
	ada.trusts("her own")
}

// Changes that git makes to a file at checkout do not make the file the person's own.
func TestWhatGitConverts(t *testing.T) {
	for attribute, text := range map[string]string{
		"ident":                            "theirs $Id$\n",
		"working-tree-encoding=ISO-8859-1": "theirs \u00e9\n",
		"text eol=crlf":                    "theirs\n",
	} {
		t.Run(attribute, func(t *testing.T) {
			t.Parallel()
			ada, bob := team(t)
			bob.write(".gitattributes", "*.txt "+attribute+"\n")
			bob.commit(".gitattributes", "*.txt "+attribute+"\n")
			bob.write(file, text)
			if strings.HasPrefix(attribute, "working") {
				bob.write(file, "theirs \xe9\n")
			}
			bob.git("add", file)
			bob.git("commit", "-qm", "evil")
			bob.push("evil", ada)
			ada.git("checkout", "-q", "evil")
			if v := ada.look(); v.Trusted() {
				t.Error("checked out, and taken for her own")
			}
			ada.ledger = ledgerIn(t)
			data, err := os.ReadFile(filepath.Join(ada.dir, file))
			if err != nil {
				t.Fatal(err)
			}
			ada.write(file, string(data)+"more\n")
			if v := ada.look(); v.Trusted() {
				t.Error("changed before the first look, and taken for her own")
			}
		})
	}
}

// Edge S2: the text that was read is judged, whatever is checked out later. Text that no commit has counts as made here only while it is on
// the disk, since git may have written other bytes than those that were committed.
func TestWhatWasReadIsJudged(t *testing.T) {
	t.Parallel()
	ada, bob := team(t)
	ada.commit(file, "mine\n")
	ada.push("main", bob)
	ada.git("fetch", "-q")
	bob.write(".gitattributes", "*.txt working-tree-encoding=ISO-8859-1\n")
	bob.write(file, "theirs\n\xe9\n")
	bob.git("add", "-A")
	bob.git("commit", "-qm", "evil")
	bob.push("evil", ada)
	ada.write("tasks/y/run.txt", "by hand\n")
	judge := ada.fresh()
	for text, trusted := range map[string]bool{"mine\n": true, "theirs\n": false, "mine\ntheirs\n": false, "\xe9\n": false, "gone\n": false, "": true} {
		for _, branch := range []string{"main", "origin/evil"} {
			ada.git("checkout", "-qf", branch)
			v, err := judge.Subject(context.Background(), subject().Of(map[string][]byte{file: []byte(text)}))
			if err != nil || v.Trusted() != trusted {
				t.Errorf("%q read, and then %s checked out: %+v, %v; want %t", text, branch, v.Foreign, err, trusted)
			}
		}
	}
	ada.git("checkout", "-qf", "main")
	v, err := judge.Subject(context.Background(), subject().Of(map[string][]byte{"tasks/y/run.txt": []byte("by hand\n")}))
	if err != nil || !v.Trusted() {
		t.Errorf("by hand, and still there: %+v, %v", v.Foreign, err)
	}
}

// A link from elsewhere makes its target foreign: the target's content changes without the link.
func TestLinks(t *testing.T) {
	ada, bob := team(t)
	bob.write("elsewhere.txt", "theirs\n")
	link := func(c *clone, target string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(c.dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(c.dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	link(bob, "../../elsewhere.txt")
	bob.git("add", "-A")
	bob.git("commit", "-qm", "evil")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	ada.asks("a stranger's link to a file of his", "theirs")
	ada.git("checkout", "-q", "main")
	ada.ledger = ledgerIn(t)
	ada.write("own.txt", "mine\n")
	link(ada, "../../own.txt")
	ada.trusts("her own link to a file of hers")
}

// The files of a submodule are in no commit of the repository, so they are foreign until somebody agrees to them.
func TestSubmodules(t *testing.T) {
	ada, bob := team(t)
	module := person(t, "module")
	module.commit("run.txt", "theirs\n")
	bob.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", module.dir, "tasks/x")
	bob.git("commit", "-qm", "evil")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	ada.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	ada.asks("a stranger's submodule", "theirs")
	if err := ada.judge.Agree(ada.look()); err != nil {
		t.Fatal(err)
	}
	ada.trusts("agreed to")
}

func TestFetchingIsNothing(t *testing.T) {
	ada, bob := team(t)
	ada.commit(file, "mine\n")
	bob.commit(file, "theirs\n")
	bob.push("evil", ada)
	ada.trusts("after a fetch")
}

func TestWhatTheTeamMergedIsTrusted(t *testing.T) {
	ada, bob := team(t)
	bob.commit(file, "theirs\n")
	bob.push("topic", ada)
	ada.git("checkout", "-q", "topic")
	ada.asks("before it is merged", "theirs")
	bob.push("main", ada)
	ada.trusts("after it is merged and fetched")
	bob.commit(file, "theirs\nlater\n")
	bob.push("main", ada)
	ada.git("checkout", "-q", "--detach", "origin/main")
	ada.trusts("the newest")
	ada.git("checkout", "-q", "topic")
	ada.ledger = ledgerIn(t)
	ada.trusts("what main had before, for somebody who never looked")
}

func TestTrustedOnceStaysSo(t *testing.T) {
	ada, bob := team(t)
	bob.commit(file, "theirs\n")
	bob.push("topic", ada)
	ada.git("checkout", "-q", "topic")
	v := ada.asks("before", "theirs")
	if err := ada.judge.Agree(v); err != nil {
		t.Fatal(err)
	}
	ada.trusts("agreed to")
	bob.commit(file, "theirs\nmore\n")
	bob.push("topic", ada)
	ada.git("pull", "-q")
	ada.asks("what is new", "more")
	if n, err := ada.judge.Revoke("x"); err != nil || n != 1 {
		t.Errorf("revoked %d items (%v), want 1", n, err)
	}
	ada.asks("revoked", "theirs", "more")
	ada.git("checkout", "-q", "main")
	ada.write(file, "theirs\n")
	ada.asks("typed after it was revoked", "theirs")
}

// If Trellis rewrites a file that has a stranger's lines, these lines stay foreign, even when git no longer has the stranger's commit.
func TestRewritingLaundersNothing(t *testing.T) {
	ada, bob := team(t)
	bob.commit(file, "theirs\n")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	ada.write(file, "theirs\nstatus\n")
	ada.asks("rewritten before the first look", "theirs")
	ada.git("reset", "-q", "main")
	ada.git("update-ref", "-d", "refs/remotes/origin/evil")
	ada.git("reflog", "expire", "--expire=now", "--all")
	ada.git("gc", "-q", "--prune=now")
	ada.asks("when git has forgotten", "theirs")
	ada.git("add", file)
	ada.git("commit", "-qm", "mine")
	ada.asks("committed", "theirs")
}

func TestProtectionsDoNotComeBack(t *testing.T) {
	ada, bob := team(t)
	bob.commit(file, "sandbox: off\n")
	bob.push("main", ada)
	ada.git("pull", "-q")
	ada.trusts("off on main")
	bob.commit(file, "sandbox: require\n")
	bob.push("main", ada)
	ada.git("pull", "-q")
	ada.trusts("required on main")
	bob.commit(file, "sandbox: off\n")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	ada.asks("an old value in a stranger's commit", "sandbox: off")
	ada.git("checkout", "-q", "main")
	ada.trusts("back on main")
	ada.git("checkout", "-qb", "mine")
	ada.commit(file, "sandbox: auto\n")
	ada.trusts("her own value")
	ada.git("checkout", "-q", "main")
	ada.trusts("main again")
	ada.git("checkout", "-q", "mine")
	ada.trusts("and hers again")
}

func TestClones(t *testing.T) {
	ada, bob := team(t)
	ada.commit(file, "merged\n")
	ada.git("push", "-q", "origin", "main")
	ada.git("checkout", "-qb", "topic")
	ada.commit(file, "merged\nopen\n")
	ada.git("push", "-q", "origin", "topic")
	remote := strings.TrimPrefix(ada.git("config", "remote.origin.url"), "file://")

	fresh := person(t, "ada")
	fresh.cloned(remote)
	fresh.trusts("a fresh clone")
	fresh.cloned(remote, "-b", "topic")
	fresh.ledger = ledgerIn(t)
	fresh.asks("a clone of a branch", "open")
	fresh.cloned(remote, "-b", "topic", "--single-branch")
	fresh.ledger = ledgerIn(t)
	fresh.asks("a clone of one branch, whose default nobody knows", "merged", "open")
	fresh.cloned(remote, "--depth=1")
	fresh.ledger = ledgerIn(t)
	fresh.trusts("a shallow clone")
	fresh.cloned(remote, "--depth=1", "--no-single-branch", "-b", "topic")
	fresh.ledger = ledgerIn(t)
	fresh.asks("a shallow clone of a branch", "open")
	fresh.write(file, "merged\nopen\nmine\n")
	fresh.asks("what is typed in it is trusted", "open")
	bob.git("fetch", "-q")
	bob.git("checkout", "-q", "--detach", "origin/main")
	bob.trusts("detached at main")
}

func TestTheBranchOfTheSettings(t *testing.T) {
	ada, bob := team(t)
	bob.commit(file, "theirs\n")
	bob.push("stable", ada)
	ada.git("checkout", "-q", "stable")
	ada.asks("by default", "theirs")
	ada.fresh().Branch = "origin/stable"
	if v, err := ada.judge.Subject(context.Background(), subject()); err != nil || !v.Trusted() {
		t.Errorf("with trust.branch: %v, %v", v.Err(), err)
	}
	ada.ledger = ledgerIn(t)
	ada.git("branch", "origin/gone", "origin/stable") // a local branch with this name is not the remote's
	ada.fresh().Branch = "origin/nothing"
	if v, err := ada.judge.Subject(context.Background(), subject()); err != nil || v.Trusted() {
		t.Errorf("with a branch that is not there: %v, %v", v.Err(), err)
	}
}

// Chosen says what chose the trusted branch. It does not record that branch.
func TestTheTrustedBranchIsTold(t *testing.T) {
	ada, _ := team(t)
	told := func(branch string, want ...string) {
		t.Helper()
		j := ada.fresh()
		j.Branch = branch
		got, err := j.Chosen(context.Background())
		for _, w := range want {
			if err != nil || !strings.Contains(got, w) {
				t.Errorf("it says %q, %v; want %q", got, err, w)
			}
		}
	}
	told("", "origin/main", "default branch of origin")
	told("origin/main", "origin/main", "trust.branch")
	told("origin/gone", "none: ")
	ada.git("remote", "set-head", "origin", "--delete")
	told("", "origin/main", "by its name", "git remote set-head origin --auto")
	ada.git("branch", "-rd", "origin/main")
	told("", "none yet")
	if ref, _, err := ada.fresh().FindTrunk(context.Background()); err != nil || ref != "refs/heads/main" {
		t.Fatalf("the trusted branch is %q (%v)", ref, err)
	}
	told("", "main, which was checked out")
}

// Without remotes, the branch that was checked out at first is the trusted one.
func TestWithoutRemotes(t *testing.T) {
	ada := person(t, "ada")
	ada.commit(file, "first\n")
	if ref, _, err := ada.fresh().FindTrunk(context.Background()); err != nil || ref != "refs/heads/main" {
		t.Fatalf("the trusted branch is %q (%v)", ref, err)
	}
	bob := person(t, "bob")
	bob.git("pull", "-q", ada.dir, "main")
	bob.commit(file, "first\ntheirs\n")
	ada.git("fetch", "-q", bob.dir, "main:topic")
	ada.git("checkout", "-q", "topic")
	ada.asks("a branch of somebody else", "theirs")
	ada.git("checkout", "-q", "main")
	ada.git("merge", "-q", "topic")
	ada.trusts("merged into main")
}

func TestLedgerThatCantBeWritten(t *testing.T) {
	ada, _ := team(t)
	ada.commit(file, "mine\n")
	ada.ledger = &trust.Ledger{}
	if v := ada.look(); !v.Trusted() || !errors.Is(v.Unsaved, trust.ErrNoLedger) {
		t.Errorf("without a home: %v, unsaved %v", v.Err(), v.Unsaved)
	}
	ada.ledger = &trust.Ledger{Path: filepath.Join(ada.dir, "README", "trust.jsonl")} // README is a file
	if v, err := ada.fresh().Subject(context.Background(), subject()); err == nil && v.Unsaved == nil {
		t.Errorf("a ledger that can't be made is not a problem: %v", v.Err())
	}
	if err := ada.judge.Agree(trust.Verdict{Subject: "x", Foreign: []trust.Foreign{{Item: trust.Item{Text: "a"}}}}); err == nil {
		t.Error("agreed to, and nowhere remembered")
	}
}

// If a home folder is a repository, a commit could write the ledger in it. Such a ledger is neither read nor written.
func TestLedgerInsideOfTheCheckout(t *testing.T) {
	ada, bob := team(t)
	bob.commit(file, "theirs\n")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	v := ada.look()
	ada.ledger.Path = filepath.Join(ada.dir, ".local", "state", "trellis", "trust.jsonl")
	if err := ada.fresh().Agree(v); !errors.Is(err, trust.ErrLedgerInCheckout) {
		t.Errorf("agreeing: %v", err)
	}
	repo, err := git.Open(ada.dir)
	if err != nil {
		t.Fatal(err)
	}
	id, err := repo.CloneID()
	if err != nil {
		t.Fatal(err)
	}
	if err := ada.ledger.Add(trust.Entry{Repo: id, ID: v.Foreign[0].Item.ID(), How: trust.Agreed}); err != nil {
		t.Fatal(err)
	}
	if v := ada.asks("a ledger in the checkout", "theirs"); !errors.Is(v.Unsaved, trust.ErrLedgerInCheckout) {
		t.Errorf("unsaved: %v", v.Unsaved)
	}
}

func TestEverything(t *testing.T) {
	ada, bob := team(t)
	bob.commit(file, "theirs\n")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	ada.fresh().Everything = true
	if v, err := ada.judge.Subject(context.Background(), subject()); err != nil || !v.Trusted() || len(v.Items) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := os.Stat(ada.ledger.Path); err == nil {
		t.Error("it is remembered")
	}
}

func TestWhatIsSaid(t *testing.T) {
	ada, bob := team(t)
	commit := bob.commit(file, "one\ntwo\n")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	v := ada.asks("said", "one", "two")
	want := "task x came with commit " + commit[:10] + " by bob and would run 2 commands that nobody here has agreed to"
	if v.Err().Error() != want {
		t.Errorf("got %s\nwant %s", v.Err(), want)
	}
	var e *trust.UntrustedError
	if !errors.As(v.Err(), &e) || e.Next() != "trellis trust x" {
		t.Errorf("next is %q", e.Next())
	}
}

func (c *clone) base(commit string) trust.Verdict {
	c.t.Helper()
	v, err := c.fresh().Base(context.Background(), c.git("rev-parse", commit))
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

func TestBases(t *testing.T) {
	ada, bob := team(t)
	ada.git("checkout", "-qb", "topic")
	ada.commit("a", "1\n")
	bob.commit("b", "1\n")
	bob.push("main", ada)
	ada.git("merge", "-q", "--no-edit", "origin/main")
	ada.commit("a", "2\n")
	if v := ada.base("HEAD"); !v.Trusted() {
		t.Errorf("her own commits and merges: %+v", v.Foreign)
	}
	ada.ledger = ledgerIn(t)
	ada.git("rebase", "-q", "origin/main")
	if v := ada.base("HEAD"); !v.Trusted() {
		t.Errorf("rebased: %+v", v.Foreign)
	}
	ada.git("checkout", "-q", "--detach", "main")
	ada.git("cherry-pick", "origin/main")
	if v := ada.base("HEAD"); !v.Trusted() {
		t.Errorf("picked from the trusted branch: %+v", v.Foreign)
	}
	bob.commit("Makefile", "evil\n")
	commit := bob.git("rev-parse", "HEAD")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "topic")
	ada.git("merge", "-q", "--no-edit", "origin/evil")
	v := ada.base("HEAD")
	if len(v.Foreign) != 1 || v.Foreign[0].Commit != commit {
		t.Errorf("a stranger's commit, merged: %+v", v.Foreign)
	}
	if !strings.Contains(v.Err().Error(), "1 commit that nobody here has agreed to") {
		t.Errorf("said: %v", v.Err())
	}
	if err := ada.judge.Agree(v); err != nil {
		t.Fatal(err)
	}
	ada.commit("a", "3\n")
	if v := ada.base("HEAD"); !v.Trusted() {
		t.Errorf("on top of what was agreed to: %+v", v.Foreign)
	}
}

// A stranger's commit stays foreign when it is rebased here, even with the author and date of a commit that was made here.
func TestForgedAuthorsOfBases(t *testing.T) {
	ada, bob := team(t)
	ada.git("checkout", "-qb", "topic")
	ada.commit("a", "1\n")
	ada.push("topic", bob)
	date := ada.git("log", "-1", "--format=%aI")
	bob.write("Makefile", "evil\n")
	bob.git("add", "Makefile")
	bob.git("commit", "-qm", "x", "--author", "ada <ada@example.com>", "--date", date)
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	ada.git("rebase", "-q", "topic")
	if v := ada.base("HEAD"); v.Trusted() {
		t.Error("rebased from a stranger's branch, and taken for her own")
	}
	made := ada.git("commit-tree", "-p", "topic", "-m", "work", "topic^{tree}")
	if v := ada.base(made); v.Trusted() {
		t.Error("a commit that no reflog has is taken for her own")
	}
	if err := ada.judge.Committed("x", made); err != nil {
		t.Fatal(err)
	}
	if v := ada.base(made); !v.Trusted() {
		t.Errorf("what Trellis committed: %+v", v.Foreign)
	}
}

// An approval of one task does not approve another task that has the same line.
func TestDecisionsAreOfOneTask(t *testing.T) {
	ada, bob := team(t)
	const yes = `{"decision":"approve","by":"ada"}`
	decisions := func(file string) trust.Verdict {
		t.Helper()
		s := trust.Subject{Name: "decisions " + file, Files: []string{file}, Read: func(file string, data []byte) (items []trust.Item, _ []string) {
			for line := range strings.Lines(string(data)) {
				items = append(items, trust.Item{Kind: trust.Approval, Text: strings.TrimSpace(line), File: file})
			}
			return items, nil
		}}
		v, err := ada.fresh().Subject(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ada.write("tasks/a/approvals.jsonl", yes+"\n")
	if v := decisions("tasks/a/approvals.jsonl"); !v.Trusted() || len(v.Items) != 1 {
		t.Errorf("her own: %+v", v)
	}
	bob.commit("tasks/b/approvals.jsonl", yes+"\n")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	if v := decisions("tasks/b/approvals.jsonl"); v.Trusted() {
		t.Error("a stranger's line says yes to his task in the words of hers to another")
	}
	if v := decisions("tasks/a/approvals.jsonl"); !v.Trusted() {
		t.Errorf("her own, known: %+v", v.Foreign)
	}
}

// A foreign base is judged without git until the ledger changes, since a watcher asks at each rescan.
func TestForeignBaseCostsNoGit(t *testing.T) {
	ada, bob := team(t)
	theirs := bob.commit(file, "evil\n")
	bob.push("evil", ada)
	judge := ada.fresh()
	look := func() (trust.Verdict, error) { return judge.Base(context.Background(), theirs) }
	before, err := look()
	if err != nil || before.Trusted() {
		t.Fatalf("a stranger's: %+v, %v", before, err)
	}
	env := judge.Repo.Env
	judge.Repo.Env = append(slices.Clone(env), "GIT_DIR=/nowhere", "PATH="+t.TempDir())
	t.Setenv("PATH", t.TempDir())
	if v, err := look(); err != nil || len(v.Foreign) != len(before.Foreign) {
		t.Errorf("without git: %+v, %v", v.Foreign, err)
	}
	judge.Repo.Env = env
	if err := judge.Agree(before); err != nil {
		t.Fatal(err)
	}
	if v, err := look(); err != nil || !v.Trusted() {
		t.Errorf("agreed to: %+v, %v", v.Foreign, err)
	}
}

// A known subject is judged without git, however many there are.
func TestWhatIsKnownCostsNoGit(t *testing.T) {
	c := person(t, "ada")
	many := 200
	if soak.Asked() {
		many = 10_000
	}
	var items []trust.Item
	for n := range many {
		text := fmt.Sprintf("make %d", n)
		c.write(fmt.Sprintf("tasks/%d/run.txt", n), text+"\n")
		items = append(items, trust.Item{Kind: trust.Command, Text: text})
	}
	judge := c.fresh()
	if err := judge.Record(trust.Made, "x", items...); err != nil {
		t.Fatal(err)
	}
	judge.Repo.Env = []string{"PATH=/nonexistent"}
	t.Setenv("PATH", "/nonexistent")
	for n := range many {
		v, err := judge.Subject(context.Background(), subject(fmt.Sprintf("tasks/%d/run.txt", n)))
		if err != nil || !v.Trusted() {
			t.Fatalf("task %d: %v, %v", n, v.Err(), err)
		}
	}
}

// BenchmarkKnown judges a known subject while the ledger has 10,000 items.
func BenchmarkKnown(b *testing.B) {
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".git", "objects"), 0o755); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{".git/refs", "tasks/x"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for name, text := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "", file: "make 1\nmake 2\nmake 3\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	repo, err := git.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	judge := &trust.Judge{Repo: repo, Ledger: &trust.Ledger{Path: filepath.Join(b.TempDir(), "state", "trust.jsonl")}}
	var items []trust.Item
	for n := range 10_000 {
		items = append(items, trust.Item{Kind: trust.Command, Text: fmt.Sprintf("make %d", n)})
	}
	if err := judge.Record(trust.Made, "x", items...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if v, err := judge.Subject(b.Context(), subject()); err != nil || !v.Trusted() {
			b.Fatal(v.Err(), err)
		}
	}
}

// Edge S2: if the branch that was checked out at first can't be recorded, no branch is trusted: what is checked out now may be somebody
// else's. Commits that were made here stay trusted.
func TestTrunkThatCannotBeRemembered(t *testing.T) {
	ada := person(t, "ada")
	ada.commit(file, "first\n")
	bob := person(t, "bob")
	bob.git("pull", "-q", ada.dir, "main")
	bob.commit(file, "first\ntheirs\n")
	ada.git("fetch", "-q", bob.dir, "main:topic")
	ada.git("checkout", "-q", "topic")
	ada.ledger = &trust.Ledger{}
	ada.asks("a branch of somebody else, looked at first", "theirs")
}

// Edge S2: a file of a fetched commit is foreign even if FETCH_HEAD lists many other branches before it.
func TestManyBranchesFetched(t *testing.T) {
	ada, bob := team(t)
	bob.commit(file, "theirs\n")
	ada.git("fetch", "-q", bob.dir, "main")
	fetched := filepath.Join(ada.dir, ".git", "FETCH_HEAD")
	data, err := os.ReadFile(fetched)
	if err != nil {
		t.Fatal(err)
	}
	others := strings.Repeat(ada.git("rev-parse", "HEAD")+"\tnot-for-merge\tbranch 'x' of elsewhere\n", 20_000)
	if err := os.WriteFile(fetched, append([]byte(others), data...), 0o644); err != nil {
		t.Fatal(err)
	}
	ada.write(file, "theirs\n") // as git archive or an editor would write it
	ada.asks("a file of what was fetched", "theirs")
}
