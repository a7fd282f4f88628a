package terminal_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/terminal"
)

func TestDiff(t *testing.T) {
	from := "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm"
	to := "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nm\n"
	want := `--- a/x
+++ b/x
@@ -1,5 +1,5 @@
 a
-b
+B
 c
 d
 e
@@ -9,5 +9,4 @@
 i
 j
 k
-l
-m
\ No newline at end of file
+m
`
	if got := terminal.Diff("x", from, to); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := terminal.Diff("x", from, from); got != "" {
		t.Errorf("got %q for one text", got)
	}
	if got := terminal.Diff("x", "a\x1b[2J\n", "b\n"); strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}

// The diff is correct: git turns the old text into the new one with it.
func TestDiffApplies(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		text := func() (s string) {
			for range r.IntN(30) {
				s += fmt.Sprintf("%d\n", r.IntN(5))
			}
			return strings.TrimSuffix(s, []string{"", "\n"}[r.IntN(2)])
		}
		from, to := text(), text()
		diff := terminal.Diff("x", from, to)
		if from == "" || to == "" || diff == "" {
			continue
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x"), []byte(from), 0o644); err != nil {
			t.Fatal(err)
		}
		apply := exec.Command("git", "apply", "--unidiff-zero", "-")
		apply.Dir, apply.Stdin = dir, strings.NewReader(diff)
		out, err := apply.CombinedOutput()
		got, _ := os.ReadFile(filepath.Join(dir, "x"))
		if err != nil || string(got) != to {
			t.Fatalf("seed %d: %v %s\n%s\ngot %q, want %q", seed, err, out, diff, got, to)
		}
	}
}
