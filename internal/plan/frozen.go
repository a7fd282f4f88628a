package plan

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/text"
)

// frozenName is the name of a bundle's file in the folder that it is saved to.
const frozenName = "bundle.json"

// frozen is the complete content of a bundle.
type frozen struct {
	Version int               `json:"schema_version"`
	Main    string            `json:"main"`
	Task    bool              `json:"task,omitempty"`
	Given   map[string]string `json:"given,omitempty"`
	Files   map[string]string `json:"files"` // texts by key
}

// seal stores the texts that the bundle was read from, and sets its hash.
func (b *Bundle) seal(texts map[string]string) {
	var err error
	if b.frozen, err = text.Indented(frozen{1, b.Main, b.task, b.Given, texts}); err != nil {
		panic(err) // texts can always be encoded
	}
	b.Hash = hashOf(b.frozen)
}

func hashOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// Save writes a copy of the bundle to the folder dir, which it creates. Only a bundle that [Load] returned can be saved.
func (b *Bundle) Save(dir string, disk *durable.Disk) error {
	if b.frozen == nil {
		panic("a bundle is saved that was not loaded")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("saving steps: %w", err)
	}
	if err := disk.WriteFile(filepath.Join(dir, frozenName), b.frozen, 0o600); err != nil {
		return fmt.Errorf("saving steps: %w", err)
	}
	return nil
}

// OpenBundle reads the copy that Save wrote of the bundle with this hash. If it was changed since, OpenBundle returns an error.
// Nothing is checked again, as the repository may have changed.
func OpenBundle(dir, hash string) (*Bundle, error) {
	data, err := durable.ReadBelow(dir, frozenName, durable.MaxJournal)
	if err != nil {
		return nil, fmt.Errorf("opening saved steps: %w", err)
	}
	if got := hashOf(data); got != hash {
		return nil, fmt.Errorf("opening saved steps: %s was changed: it has %s, not %s", filepath.Join(dir, frozenName), got, hash)
	}
	var f frozen
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("opening saved steps: %w", err)
	}
	b := &Bundle{Hash: hash, Main: f.Main, Plans: map[string]*Plan{}, Given: f.Given, task: f.Task, frozen: data}
	for _, key := range slices.Sorted(maps.Keys(f.Files)) {
		p, problems := Read(key, []byte(f.Files[key]), f.Task && key == f.Main)
		if p == nil {
			bad := slices.IndexFunc(problems, func(p Problem) bool { return !p.Warning })
			return nil, fmt.Errorf("opening saved steps: this trellis does not read %s: %s", key, problems[bad].withPointer())
		}
		b.Plans[key] = p
	}
	main := b.Plans[f.Main]
	if main == nil {
		return nil, fmt.Errorf("opening saved steps: %s is not among the files", f.Main)
	}
	main.setVars(f.Given)
	return b, nil
}

// setVars sets vars to the given values, and fills them into the commands that Trellis runs itself.
func (p *Plan) setVars(given map[string]string) {
	for name, value := range given {
		p.Vars[name] = &value
	}
	p.fillChecks()
}
