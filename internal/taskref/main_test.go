package taskref_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const task = "02-01-greet"

// net is a bare remote with machines that share it.
type net struct {
	testing.TB
	box  *gittest.Box
	bare string
}

func newNet(t testing.TB, initArgs ...string) *net {
	t.Helper()
	n := &net{TB: t, box: gittest.New(t, initArgs...)}
	n.bare = filepath.Join(filepath.Dir(n.box.Dir), "bare.git")
	n.box.Write(".gitattributes", "* text=auto eol=crlf\n*.json filter=broken export-subst\n")
	n.box.Write(".gitignore", "ignored/\n*.log\n")
	n.box.Git("add", "-A")
	n.box.Git("commit", "-qm", "attributes")
	n.box.Git("clone", "-q", "--bare", n.box.Dir, n.bare)
	return n
}

// machine is a clone in its own folder, with paths that no other machine has.
type machine struct {
	testing.TB
	*gittest.Box
	root   string
	remote taskref.Remote
}

// machine clones the remote into a folder of the given name.
func (n *net) machine(name string) *machine {
	n.Helper()
	root := filepath.Join(filepath.Dir(n.box.Dir), name)
	box := *n.box
	box.T, box.Dir = n.TB, filepath.Join(root, "app")
	box.Mkdir(root)
	n.box.Git("clone", "-q", n.bare, box.Dir)
	repo := box.Open(box.Dir)
	box.Repo = repo
	id, err := repo.CloneID()
	if err != nil {
		n.Fatal(err)
	}
	m := &machine{TB: n.TB, Box: &box, root: root}
	m.remote = taskref.Remote{
		Repo: repo, Name: "origin", Store: taskdir.Store{Root: repo.Main}, Build: "v1", Transcripts: true,
		Places: taskref.Places{Main: repo.Main, Worktrees: repo.Main + "-worktrees", Clone: id},
	}
	return m
}

func (m *machine) taskDir() string { return filepath.Join(m.remote.Store.Tasks(), task) }

func (m *machine) claim() taskref.Claim {
	return taskref.Claim{Machine: m.remote.Places.Clone, Host: "host", Since: time.Unix(1700000000, 0).UTC()}
}

// create makes the task directory with a run in it.
func (m *machine) create() {
	m.Helper()
	m.file("task.json", `{"name": "greet", "status": "in_progress", "branch": "feature/greet", "worktree_path": `+quoted(m.tree())+"}\n")
	m.file("prd.md", "Say hello in "+m.Dir+"\r\n")
	m.file("run/.gitignore", "*\n")
	m.file("run/lock", "{}")
	m.file("run/write.lock", "{}")
	m.file("run/1/check#1/heads.json", "{}")
	m.file("run/1/implement#1/1/prompt.md", "Work in "+m.tree()+".\n")
	m.file("run/1/implement#1/1/result.json", `{"failure":{"detail":`+quoted(m.tree()+" is gone\n"+m.Dir+", too")+`},"text":{"path":"answer.md","sha256":"`+sum(m.answer())+`"}}`)
	m.file("run/1/plan#1/made.json", m.made())
	m.file("run/1/plan#1/1/result.json", `{"text":{"path":"made.json","sha256":"`+sum(m.made())+`"}}`)
	m.file("run/1/implement#1/1/answer.md", m.answer())
	m.journal("run/journal.jsonl", map[string]any{"dir": m.tree(), "repo": m.Dir, "text": "<" + m.Dir + "/a.txt>"})
	if err := os.Chmod(filepath.Join(m.taskDir(), "run"), 0o700); err != nil {
		m.Fatal(err)
	}
}

// answer returns a text whose hash is in a record.
func (m *machine) answer() string { return "I worked in " + m.tree() + "\n" }

// made returns a record whose hash is in another record.
func (m *machine) made() string { return `{"dir":` + quoted(m.tree()) + "}" }

func (m *machine) tree() string { return m.remote.Places.Worktrees + "/feature/greet" }

func (m *machine) file(name, text string) {
	m.Helper()
	m.Write(filepath.Join(m.taskDir(), name), text)
}

func (m *machine) read(name string) string {
	m.Helper()
	return m.Read(filepath.Join(m.taskDir(), name))
}

// save saves the task over the state last, and returns the new state.
func (m *machine) save(last string) taskref.State {
	m.Helper()
	s, err := m.remote.Save(m.Context(), m.taskDir(), last, taskref.SaveAs{Work: true, Claim: m.claim(), Status: trellis.InProgress, Why: "after commit#1"})
	if err != nil {
		m.Fatal(err)
	}
	return s
}

// fetch returns the state of the task on the remote.
func (m *machine) fetch() taskref.State {
	m.Helper()
	states, _, err := m.remote.Fetch(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	for _, s := range states {
		if s.Task == task {
			return s
		}
	}
	m.Fatal("the remote has no state of the task")
	return taskref.State{}
}

func (m *machine) bring(s taskref.State) (kept string) {
	m.Helper()
	kept, err := m.remote.Import(m.Context(), s)
	if err != nil {
		m.Fatal(err)
	}
	return kept
}

func quoted(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

func (m *machine) differs(s taskref.State) bool {
	m.Helper()
	differs, err := m.remote.Differs(m.Context(), m.taskDir(), s)
	if err != nil {
		m.Fatal(err)
	}
	return differs
}

// pushTree pushes a commit to ref of the remote. Its tree has the given entries, in the format that git mktree reads.
func (m *machine) pushTree(ref, message string, entries ...string) {
	m.Helper()
	tree, err := m.remote.Repo.Line(context.Background(), git.Command{Dir: m.Dir, Args: []string{"mktree", "--missing"}, Stdin: strings.NewReader(strings.Join(entries, "\n") + "\n")})
	if err != nil {
		m.Fatal(err)
	}
	commit := m.Git("commit-tree", "-m", message, tree)
	m.Git("push", "-q", "--force", "origin", fmt.Sprintf("%s:%s", commit, ref))
}
