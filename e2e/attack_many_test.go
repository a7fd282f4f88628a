package e2e

import (
	"fmt"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// grown returns a script that makes a repository of this many files. Its objects are loose, or in a pack.
func grown(files int, packed bool) string {
	const pack, loose = "git gc -q --prune=now", "git config gc.auto 0"
	end := loose
	if packed {
		end = pack
	}
	return fmt.Sprintf(`%s
awk 'BEGIN { for (i = 0; i < %d; i++) { d = "many/" int(i/100); if (i%%100 == 0) system("mkdir -p " d); f = d "/f" i; print "file " i > f; close(f) } }'
git add -A; git commit -q -m many; %s
`, loose, files, end)
}

// ofMany returns the attacks that would succeed if git or Trellis inspected only recent objects, or only a few.
func ofMany(files int) (attacks []attack) {
	for _, list := range [][]attack{liars(), traps, harms} {
		for _, a := range list {
			packed, wanted := map[string]bool{
				"the loose object of the test": false, "an index of lies": false, "the hook's object": false, "old loose objects are removed": false,
				"a pack that names it wrong": true, "the pack overwritten": true, "packs are removed": true,
			}[a.name]
			if !wanted {
				continue
			}
			a.prepare = grown(files, packed) + a.prepare
			attacks = append(attacks, a)
		}
	}
	return attacks
}

// TestForgeriesAmongManyFiles, edge S1 (a), (b) and (c): nothing forged is delivered, no forged hook is run, and deletions are
// reported, in a repository of 20 files, or with TRELLIS_SOAK of 20,000.
func TestForgeriesAmongManyFiles(t *testing.T) {
	t.Parallel()
	files := 20
	if soak.Asked() {
		files = 20_000
	}
	both := bothModes(t)
	for i, a := range ofMany(files) {
		for j, mode := range both {
			if files == 20 && (i%3 > 0 || j != i/3%len(both)) { // a sample
				continue
			}
			t.Run(fmt.Sprintf("%d/%s/%s", files, a.name, mode), func(t *testing.T) {
				t.Parallel()
				a.make(t, mode)
			})
		}
	}
}
