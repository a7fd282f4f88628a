package trellis_test

import (
	"os/exec"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ShellWord quotes any text so that a shell reads it as one word.
func TestShellWord(t *testing.T) {
	for _, word := range []string{"", "/src/shop-worktrees/feature/x", "/my work/it's/a $HOME", "/a;b&c|d", "~final", "a\nb", "*.go", "#1"} {
		out, err := exec.Command("sh", "-c", "printf '<%s>' "+trellis.ShellWord(word)).Output()
		if err != nil || string(out) != "<"+word+">" {
			t.Errorf("got %q, %v, want %q", out, err, word)
		}
	}
}
