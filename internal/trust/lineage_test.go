package trust_test

import (
	"context"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trust"
)

const prd = "tasks/x/prd.md"

// text returns a file in which git joins an edit at the top and one at the end without a conflict.
func text(top, end string) string { return top + strings.Repeat("\nand more", 20) + "\n" + end + "\n" }

// wholly judges a file in which every word counts.
func (c *clone) wholly() trust.Verdict {
	c.t.Helper()
	s := trust.Subject{Name: "x", Files: []string{prd}, Read: func(file string, data []byte) ([]trust.Item, []string) {
		if len(data) == 0 {
			return nil, nil
		}
		return []trust.Item{{Kind: trust.Requirement, Text: trust.Digest(data), File: file}}, nil
	}}
	c.ledger = ledgerIn(c.t) // as if nothing was judged before
	v, err := c.fresh().Subject(context.Background(), s)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(v.Items) != 1 {
		c.t.Fatalf("there are %d items", len(v.Items))
	}
	return v
}

// joining has the ways in which git joins two edits of a file by itself: the edit on main and the edit on a branch.
var joining = map[string]func(c *clone, branch string){
	"merge": func(c *clone, branch string) { c.git("merge", "-q", "--no-edit", branch) },
	"merged, amend": func(c *clone, branch string) {
		c.git("merge", "-q", "--no-edit", branch)
		c.git("commit", "-q", "--amend", "-m", "x")
	},
	"pull":          func(c *clone, branch string) { c.git("pull", "-q", "--no-rebase", "--no-edit", ".", branch) },
	"pull --rebase": func(c *clone, branch string) { c.git("pull", "-q", "--rebase", ".", branch) },
	"rebase":        func(c *clone, branch string) { c.git("rebase", "-q", branch) },
	"rebase its":    func(c *clone, branch string) { c.git("rebase", "-q", "main", branch) },
	"cherry-pick":   func(c *clone, branch string) { c.git("cherry-pick", branch) },
	"picked, amend": func(c *clone, branch string) {
		c.git("cherry-pick", branch)
		c.git("commit", "-q", "--amend", "-m", "x")
	},
}

// Two edits of one person count as that person's after git joined them.
func TestOwnEditsThatGitJoins(t *testing.T) {
	member, _ := team(t)
	member.commit(prd, text("top", "end"))
	member.git("push", "-q", "origin", "main")
	for name, join := range joining {
		for _, pushed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ada := member.copy(t)
				ada.git("checkout", "-qb", "topic")
				ada.commit(prd, text("mine", "end"))
				ada.git("checkout", "-q", "main")
				ada.commit(prd, text("top", "mine"))
				if pushed { // as if from another machine
					ada.git("update-ref", "refs/remotes/origin/main", "topic")
				}
				join(ada, "topic")
				if v := ada.wholly(); !v.Trusted() {
					t.Errorf("asked about %+v", v.Foreign)
				}
			})
		}
	}
}

// A stranger's edit stays foreign after git joined it to a person's own edit.
func TestStrangersEditsThatGitJoins(t *testing.T) {
	member, bob := team(t)
	member.commit(prd, text("top", "end"))
	member.push("main", bob)
	bob.git("checkout", "-qb", "evil", "origin/main")
	bob.commit(prd, text("theirs", "end"))
	bob.push("evil", member)
	for name, join := range joining {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ada := member.copy(t)
			ada.commit(prd, text("top", "mine"))
			ada.git("branch", "evil", "origin/evil")
			join(ada, "evil")
			if v := ada.wholly(); v.Trusted() {
				t.Error("a stranger's edit is taken for hers")
			}
		})
	}
}

// A person's commit into which a rebase folded a stranger's edit is foreign.
func TestFoldedCommits(t *testing.T) {
	ada, bob := team(t)
	ada.commit(prd, text("top", "end"))
	ada.push("main", bob)
	bob.git("checkout", "-qb", "evil", "origin/main")
	bob.commit(prd, text("theirs", "end"))
	bob.push("evil", ada)
	ada.commit(prd, text("top", "mine"))
	ada.git("cherry-pick", "origin/evil")
	ada.env = append(ada.env, "GIT_SEQUENCE_EDITOR=sed -i -e 2s/pick/fixup/")
	ada.git("rebase", "-q", "-i", "--no-ff", "origin/main")
	if v := ada.wholly(); v.Trusted() {
		t.Error("a stranger's edit is hers when it is folded into hers")
	}
	ada.git("commit", "-q", "--amend", "-m", "x")
	if v := ada.wholly(); v.Trusted() {
		t.Error("and amended")
	}
}

// An amended commit is foreign if the commit that it replaces is.
func TestAmends(t *testing.T) {
	ada, bob := team(t)
	bob.git("checkout", "-qb", "evil")
	bob.commit("Makefile", "evil\n")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	ada.env = append(ada.env, "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z") // differs from the dates of her other commits
	for _, options := range []string{"--reset-author", "--no-edit"} {
		ada.write(prd, "mine\n")
		ada.git("add", prd)
		ada.git("commit", "-q", "--amend", options, "-m", "mine")
		ada.git("commit", "-q", "--amend", options, "-m", "mine again")
		if v := ada.base("HEAD"); v.Trusted() {
			t.Errorf("%s: a stranger's commit is hers once she amends it", options)
		}
		ada.git("reset", "-q", "--hard", "origin/evil")
	}
	ada.git("checkout", "-q", "main")
	ada.git("commit", "-q", "--amend", "-m", "of the trusted branch")
	if v := ada.base("HEAD"); !v.Trusted() {
		t.Errorf("what the team merged, amended: %+v", v.Foreign)
	}
	ada.commit(prd, "mine\n")
	for range 2 {
		ada.git("commit", "-q", "--amend", "--reset-author", "-m", "mine again")
	}
	if v := ada.base("HEAD"); !v.Trusted() {
		t.Errorf("her own, amended: %+v", v.Foreign)
	}
}
