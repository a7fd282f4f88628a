package proof_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proof"
)

// The example of docs/reference/proofs.md is a valid chain, and the tables of the page name every key, kind and fault.
func TestProofsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/proofs.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	_, example, _ := strings.Cut(page, "```\n")
	example, _, _ = strings.Cut(example, "```")
	dir := t.TempDir()
	setProofs(t, dir, example)
	if list, problems, err := proof.ReadProofs(dir); err != nil || problems != nil || len(list) != 2 {
		t.Errorf("the example: got %d records, %v %v", len(list), problems, err)
		for i, line := range strings.SplitAfter(strings.TrimSpace(example), "\n") {
			t.Logf("hash of line %d: %s", i+1, hashOf(t, line))
		}
	}
	var documented []string
	_, table, _ := strings.Cut(page, "| key | what it says |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cell, -1) {
			documented = append(documented, m[1])
		}
	}
	var keys []string
	for f := range reflect.TypeFor[proof.Proof]().Fields() {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "-" {
			keys = append(keys, key)
		}
	}
	if !slices.IsSorted(keys) {
		t.Errorf("the canonical spelling needs sorted keys, got %v", keys)
	}
	slices.Sort(documented)
	if !reflect.DeepEqual(documented, keys) {
		t.Errorf("documented are %v, a record has %v", documented, keys)
	}
	for _, word := range []any{proof.Damaged, proof.Broken, proof.Replayed, proof.Stale, proof.Missing, proof.Changed, proof.Final} {
		text, err := json.Marshal(word)
		if name := strings.Trim(string(text), `"`); err != nil || !strings.Contains(page, "`"+name+"`") {
			t.Errorf("%s is not documented (%v)", name, err)
		}
	}
}
