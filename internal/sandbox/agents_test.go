package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/sandbox"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The real programs do their work in the sandbox, keep their sessions, change nothing outside of the worktree, and ask for no host
// but that of their model, which is all that they reach.
func TestRealAgents(t *testing.T) {
	for _, c := range []struct {
		cli string
		p   trellis.Permission
	}{{agents.Claude, trellis.PermitEdit}, {agents.OpenCode, trellis.PermitEdit}, {agents.Codex, trellis.PermitEdit}, {agents.Codex, trellis.PermitFull}} {
		t.Run(c.cli+" "+string(c.p), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			hook := filepath.Join(w.Main, ".git", "hooks", "pre-commit")
			server, err := modelserver.New(modelserver.Play(
				modelserver.Turn{Text: "I begin.", Calls: []modelserver.Call{modelserver.Shell("echo made > made.txt; echo x > " + hook + "; echo x > " + w.Main + "/made.txt; echo x > $HOME/.profile; " +
					"mkdir -p $HOME/.config/opencode/plugin; echo x > $HOME/.config/opencode/plugin/x; echo evil > $HOME/.claude/settings.json; echo evil > $HOME/.codex/config.toml; echo x > $HOME/.claude/commands/x; echo evil > $HOME/.config/opencode/opencode.json; " +
					"for f in .claude/local/claude .claude/statusline.sh .claude/shell-snapshots/x.sh .codex/packages/x/codex .codex/tmp/arg0/x/ls .local/share/opencode/bin/rg; do echo evil > $HOME/$f; done; git add made.txt")}},
				modelserver.Turn{Text: "It is done."}))
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			env := agentstest.RealEnv(t, c.cli, server.URL)
			w.Box.Environ = env
			home := ""
			for _, e := range env {
				if dir, ok := strings.CutPrefix(e, "HOME="); ok {
					home = dir
				}
			}
			for _, dir := range []string{".claude", ".codex", ".config/opencode"} { // folders of a person who uses the programs
				w.write(filepath.Join(home, dir, "note"), "")
			}
			theirs := []string{".claude/local/claude", ".claude/statusline.sh", ".claude/shell-snapshots/x.sh", ".codex/packages/x/codex", ".codex/tmp/arg0/x/ls", ".local/share/opencode/bin/rg"}
			for _, name := range theirs { // files that other sessions run
				w.write(filepath.Join(home, name), "theirs\n")
			}
			agent, err := agents.New(c.cli, agents.Options{Environ: env, Sandbox: func(ctx context.Context, r agents.Request, own agents.Own) (agents.Place, error) {
				cell, err := w.Box.Enter(ctx, sandbox.Need{Kind: string(r.Role), Dir: r.Dir, Edit: r.Writes(), Own: sandbox.Own(own)})
				return agents.Place{Launcher: cell.Launcher, Files: cell.Files, Env: cell.Env, Name: cell.Name, Leave: cell.Leave}, err
			}})
			if err != nil {
				t.Fatal(err)
			}
			session := ""
			for _, prompt := range []string{"Make it.", "And again."} {
				r, err := agent.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: prompt, Dir: w.Tree, Permission: c.p, Session: session,
					RunDir: t.TempDir(), Marker: w.marker("real"), Limits: agents.Limits{Wall: 5 * time.Minute}}, func(e agents.Event) {
					if strings.Contains(e.Text, "which is not let through") {
						t.Error(e.Text)
					}
				})
				if err != nil || r.Text != "It is done." || !strings.HasPrefix(r.Sandbox, "bubblewrap ") {
					t.Fatalf("got %+v, %v", r, err)
				}
				session = r.Session
			}
			if got, _ := os.ReadFile(filepath.Join(w.Tree, "made.txt")); string(got) != "made\n" {
				t.Errorf("got %q in the worktree, want made", got)
			}
			for _, path := range []string{hook, filepath.Join(w.Main, "made.txt"), filepath.Join(home, ".profile"), filepath.Join(home, ".claude", "commands", "x"), filepath.Join(home, ".config", "opencode", "plugin", "x")} {
				if _, err := os.Stat(path); err == nil {
					t.Errorf("%s was written", path)
				}
			}
			for _, name := range append(theirs, ".claude/settings.json", ".codex/config.toml", ".config/opencode/opencode.json") {
				if got, _ := os.ReadFile(filepath.Join(home, name)); strings.Contains(string(got), "evil") {
					t.Errorf("got %q in %s, want nothing of it", got, name)
				}
			}
		})
	}
}
