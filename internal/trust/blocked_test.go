package trust_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trust"
)

const hook = "scripts/hook.sh"

// hooked returns a subject with one hook, which names a program of the checkout.
func hooked() trust.Subject {
	return trust.Subject{Name: "settings", Files: []string{file}, Read: func(file string, data []byte) ([]trust.Item, []string) {
		if strings.HasPrefix(file, "tasks/") {
			return []trust.Item{{Kind: trust.Hook, Text: string(data), File: file}}, []string{hook}
		}
		return []trust.Item{{Kind: trust.Program, Text: file + " " + trust.Digest(data), File: file}}, nil
	}}
}

func (c *clone) hooks() (foreign []string) {
	c.t.Helper()
	v, err := c.fresh().Subject(context.Background(), hooked())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range v.Foreign {
		foreign = append(foreign, f.Item.Text)
	}
	return foreign
}

func (c *clone) link(name, target string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	os.RemoveAll(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		c.t.Fatal(err)
	}
}

// A program that the settings name still counts if a link that Trellis does not follow is in its place: a shell does follow the link.
func TestLinksThatLeadOut(t *testing.T) {
	for name, to := range map[string]struct{ path, target string }{
		"absolute":        {hook, "/opt/evil.sh"},
		"by /proc":        {hook, "/proc/self/cwd/evil.sh"},
		"above":           {hook, "../../evil.sh"},
		"into git's own":  {hook, "../.git/config"},
		"the folder's":    {"scripts", "/opt"},
		"by another link": {"scripts", "way"},
		"in a circle":     {hook, "hook.sh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ada, bob := team(t)
			ada.write(hook, "#!/bin/sh\n")
			ada.write(file, "sh "+hook)
			ada.git("add", "-A")
			ada.git("commit", "-qm", "settings")
			ada.push("main", bob)
			bob.git("merge", "-q", "origin/main")
			bob.link("way", "/opt")
			bob.link(to.path, to.target)
			bob.git("add", "-A")
			bob.git("commit", "-qm", "evil")
			bob.push("evil", ada)
			ada.git("checkout", "-q", "evil")
			want := to.path + " is a link to " + to.target
			if got := ada.hooks(); len(got) == 0 || got[0] != want {
				t.Errorf("foreign is %q, want %q", got, want)
			}
			ada.git("reset", "-q", "main") // the link stays on the disk
			if got := ada.hooks(); len(got) == 0 || got[0] != want {
				t.Errorf("left behind: foreign is %q, want %q", got, want)
			}
			bob.git("push", "-qf", "origin", "HEAD:main")
			ada.git("fetch", "-q")
			if got := ada.hooks(); len(got) > 0 {
				t.Errorf("merged by the team: asked about %q", got)
			}
		})
	}
}

func TestOwnLinksThatLeadOut(t *testing.T) {
	ada, bob := team(t)
	ada.write(file, "sh "+hook)
	ada.link(hook, "/usr/local/bin/hook.sh")
	if got := ada.hooks(); len(got) > 0 {
		t.Errorf("a link of hers: asked about %q", got)
	}
	bob.commit("tools/hook.sh", "evil\n")
	bob.push("evil", ada)
	ada.git("checkout", "-q", "evil")
	ada.link(hook, filepath.Join(ada.dir, "tools", "hook.sh"))
	want := "tools/hook.sh " + trust.Digest([]byte("evil\n"))
	if got := ada.hooks(); len(got) != 1 || got[0] != want {
		t.Errorf("a link of hers to a stranger's file: foreign is %q, want %q", got, want)
	}
}

// Words of a command that name no file of the checkout need no trust.
func TestWordsThatNameNoFile(t *testing.T) {
	ada, bob := team(t)
	ada.write(file, "sh "+hook)
	ada.hooks()
	bob.commit("scripts", "x\n")
	bob.push("within-a-file", ada)
	bob.git("rm", "-q", "scripts")
	bob.commit(hook+"/x", "x\n")
	bob.push("folder", ada)
	for _, branch := range []string{"main", "within-a-file", "folder"} {
		ada.git("checkout", "-q", "--detach", "origin/"+branch)
		if got := ada.hooks(); len(got) > 0 {
			t.Errorf("%s: asked about %q", branch, got)
		}
	}
}
