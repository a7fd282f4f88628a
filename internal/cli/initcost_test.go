package cli

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// Every command pays for the init functions of all packages, such as compiling regular expressions and templates. These are the most
// allocations allowed, in all and in one package.
const (
	maxInitAllocs    = 10_000
	maxPackageAllocs = 2_500
)

func TestInitCost(t *testing.T) {
	cmd := exec.Command(realTrellis(t), "--version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	trace, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) allocs$`).FindAllSubmatch(trace, -1) {
		allocs, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		total += allocs
		if allocs > maxPackageAllocs {
			t.Errorf("init of %s makes %d allocations, more than %d", m[1], allocs, maxPackageAllocs)
		}
	}
	if total == 0 || total > maxInitAllocs {
		t.Errorf("all inits together make %d allocations, want 1 to %d", total, maxInitAllocs)
	}
	t.Logf("%d allocations before main", total)
}
