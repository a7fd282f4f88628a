package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/roadmap"
)

// fieldPaths collects the paths of all fields of a JSON document. For a list it reads the first entry.
func fieldPaths(v any, prefix string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, sub := range v {
			into[prefix+k] = true
			fieldPaths(sub, prefix+k+".", into)
		}
	case []any:
		if len(v) > 0 {
			fieldPaths(v[0], strings.TrimSuffix(prefix, ".")+"[].", into)
		}
	}
}

// The fields that objective commands print with --json are a contract.
func TestObjectiveJSON(t *testing.T) {
	dir := t.TempDir()
	for _, words := range []string{"init -q", "-c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -q --allow-empty -m x"} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, strings.Fields(words)...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", words, err, out)
		}
	}
	src := "---\nauto_advance: true\n---\n# Objective: X\n## Phase 1: One\n| Step | Description | Status | PR |\n|-|-|-|-|\n| 1 | a | done | |\n| 2 | b | | |\n"
	path := filepath.Join(dir, roadmap.File("x"))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(src), 0o666); err != nil {
		t.Fatal(err)
	}
	over := "| Step | PR |\n|-|-|\n| 1 | #1 |\n"
	if err := os.WriteFile(filepath.Join(dir, roadmap.File("y")), []byte(over), 0o666); err != nil {
		t.Fatal(err)
	}
	row := "auto_advance file name next next.code next.on next.plan next.step next.why problems problems[].column problems[].file problems[].hint problems[].line problems[].message problems[].warning " +
		"steps steps.blocked steps.done steps.in_progress steps.pending steps.planning steps.skipped steps.total title"
	step := "depends_on description id line phase plan prs state stated task_status"
	for _, c := range []struct {
		args string
		want []string
	}{
		{"list", under("[].", row)},
		{"show x", slices.Concat(under("", row+" phases phases[].id phases[].line phases[].steps phases[].title"), under("phases[].steps[].", step))},
		{"next x", slices.Concat(under("", "code objective on plan ready step why"), under("ready[].", step), under("step.", step))},
		{"reconcile --dry-run", under("[].", "changes code error objective planned problems steps why")},
		{"plan y", under("", "objective code step cell known issue "+
			"calls category commands confidence contexts decision details dir estimate failure files goals id judge "+
			"retries seconds size skipped source status steps suggestions taskspec title usage usage.cached_tokens usage.cost_usd usage.input_tokens usage.output_tokens usage.seconds warnings why")},
		{"check x", under("", "checked fixed ok problems problems[].column problems[].file problems[].hint problems[].line problems[].message problems[].warning")},
	} {
		var out bytes.Buffer
		a := &console{Console: command.Console{Stdout: &out, Stderr: os.Stderr, Env: os.Environ(), Dir: dir, Now: time.Now}}
		if code := a.Run(context.Background(), append([]string{"objective"}, append(strings.Fields(c.args), "--json")...)); code != 0 {
			t.Fatalf("%s: exit %d", c.args, code)
		}
		var doc any
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		fields := map[string]bool{}
		fieldPaths(doc, "", fields)
		want := c.want
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
			t.Errorf("%s: got %s\nwant %s", c.args, fmt.Sprint(got), fmt.Sprint(want))
		}
	}
}

func under(prefix, names string) (list []string) {
	for _, n := range strings.Fields(names) {
		list = append(list, prefix+n)
	}
	return list
}
