package sandbox_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// BenchmarkEnter measures what the sandbox costs a command, beside the command without it.
func BenchmarkEnter(b *testing.B) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		b.Skip(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		b.Fatal(err)
	}
	repo, err := git.Open(dir)
	if err != nil {
		b.Skip(err)
	}
	for _, mode := range []string{sandbox.Off, sandbox.Require} {
		box := &sandbox.Box{Mode: mode, Environ: os.Environ(), Repo: repo}
		b.Run(mode, func(b *testing.B) {
			for b.Loop() {
				cell, err := box.Enter(b.Context(), sandbox.Need{Kind: sandbox.Verify, Dir: repo.Main, Edit: true})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := proc.Run(b.Context(), proc.Command{Argv: []string{"true"}, Dir: repo.Main, Env: os.Environ(), Launcher: cell.Launcher}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
