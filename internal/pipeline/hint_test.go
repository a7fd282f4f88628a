package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/config"
)

// The text of a plan is cut to the caps of a prompt; if it was cut, a note says so, and the text names the file to read.
func TestHintFits(t *testing.T) {
	a := New(Deps{Dir: t.TempDir(), Config: new(config.Config)}).Prompts
	if err := os.MkdirAll(a.inputs.folder("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, notes, err := a.priorDecisions("x", contextfiles.DefaultCaps())
	if text != "" || notes != nil || err != nil {
		t.Errorf("without a plan: %q, %q, %v", text, notes, err)
	}
	plan := `{"title": "T", "summary": "` + strings.Repeat("ü", 2000) + `", "steps": [{"id": "s", "type": "prompt", "prompt": "P", "llm_as_judge": true}], "acceptance": [{"criterion": "c"}]}`
	if err := os.WriteFile(filepath.Join(a.inputs.folder("x"), "plan.json"), []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	for caps, cut := range map[contextfiles.Caps]bool{
		contextfiles.DefaultCaps():                false,
		{File: 1, Artifact: 1000, Total: 1 << 20}: true,
		{File: 1, Artifact: 1 << 20, Total: 1000}: true,
		{File: 1, Artifact: 1000, Total: -5}:      true,
	} {
		text, notes, err := a.priorDecisions("x", caps)
		if err != nil || len(notes) > 0 != cut || strings.Contains(text, ".trellis/.runtime/task/plan.json") != cut || !utf8.ValidString(text) {
			t.Errorf("%+v: %d bytes, %q, %v\n%.100s", caps, len(text), notes, err, text)
		}
		if most := max(0, min(caps.Artifact, caps.Total)) + 200; len(text) > most {
			t.Errorf("%+v: %d bytes, want at most %d", caps, len(text), most)
		}
	}
}
