package agents_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The usage that a program reports is a running total: it never falls, and a value that is not a number, or not a possible one,
// changes nothing. No total is accepted that would make a sum overflow, and a cost that can't be read is unknown, not zero.
func TestRunningTotals(t *testing.T) {
	for name, c := range map[string]struct {
		told []string
		want string // input, output, cached, cost
	}{
		"as it should be":        {[]string{`{"input_tokens": 10, "output_tokens": 2, "cached_tokens": 3, "cost_usd": 0.5}`}, `[10,2,3,0.5]`},
		"without a cost":         {[]string{`{"input_tokens": 10}`}, `[10,0,0,null]`},
		"a cost alone":           {[]string{`{"cost_usd": 0.5}`}, `[0,0,0,0.5]`},
		"nothing":                {[]string{`{"input_tokens": 0, "cost_usd": 0}`}, `[0,0,0,0]`},
		"spelled as a fraction":  {[]string{`{"input_tokens": 1.2e3, "output_tokens": 20.0}`}, `[1200,20,0,null]`},
		"below nothing":          {[]string{`{"input_tokens": -5000, "output_tokens": 10, "cost_usd": -3}`}, `[0,10,0,null]`},
		"words":                  {[]string{`{"input_tokens": "12", "output_tokens": 10, "cost_usd": "0.5"}`}, `[0,10,0,null]`},
		"more than there can be": {[]string{`{"input_tokens": 9223372036854775807, "output_tokens": 1e300, "cost_usd": 1e300}`}, `[1000000000000,1000000000000,0,1000000000]`},
		"more than a float":      {[]string{`{"input_tokens": 10, "cost_usd": 1e999}`}, `[10,0,0,null]`},
		"the cost left out":      {[]string{`{"input_tokens": 10, "cost_usd": 0.5}`, `{"input_tokens": 20}`}, `[20,0,0,0.5]`},
		"falling":                {[]string{`{"input_tokens": 10, "output_tokens": 1, "cost_usd": 0.5}`, `{"input_tokens": 4, "output_tokens": 2, "cost_usd": 0.1}`}, `[10,2,0,0.5]`},
		"no total at all":        {[]string{`{"input_tokens": 10, "cost_usd": 0.5}`, `"much"`, `{}`, `null`}, `[10,0,0,0.5]`},
	} {
		t.Run(name, func(t *testing.T) {
			script := "cat > /dev/null\n"
			for _, usage := range c.told {
				script += `echo '{"type": "usage", "usage": ` + usage + "}'\n"
			}
			u := played(t, agents.Command{Output: "events"}, script+`echo '{"type": "result", "text": "done"}'`).Usage
			got, err := json.Marshal([]any{u.InputTokens, u.OutputTokens, u.CachedTokens, u.CostUSD})
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// A cost that claude reports as something other than a number is estimated as if claude had reported none.
func TestCostOfClaudeInWords(t *testing.T) {
	u := played(t, agents.Command{}, `cat > /dev/null
echo '{"type": "system", "subtype": "init", "session_id": "s", "model": "claude-haiku-4-5"}'
echo '{"type": "assistant", "session_id": "s", "message": {"id": "m1", "model": "claude-haiku-4-5", "content": [], "usage": {"input_tokens": 1000, "output_tokens": 10}}}'
echo '{"type": "result", "subtype": "success", "session_id": "s", "result": "done", "total_cost_usd": "0.5", "usage": {"input_tokens": 1000, "output_tokens": 10}}'`).Usage
	if u.CostUSD == nil || *u.CostUSD == 0 || !u.CostEstimated {
		t.Errorf("got %+v", u)
	}
}

// played returns the result of a program that is a script: the command c, or claude if c has no output.
func played(t *testing.T, c agents.Command, script string) *agents.Result {
	t.Helper()
	dir := t.TempDir()
	name, file := "mine", filepath.Join(dir, "agent.sh")
	o := agents.Options{Environ: os.Environ(), Root: dir, Commands: map[string]agents.Command{}}
	if c.Output == "" {
		name, file = agents.Claude, filepath.Join(dir, "claude")
		o.Environ = append(o.Environ, "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
	}
	if c.Argv = []string{"sh", file}; name == "mine" {
		o.Commands[name] = c
	}
	if err := os.WriteFile(file, []byte(strings.TrimSpace("#!/bin/sh\n"+script)+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	a, err := agents.New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	res, err := a.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: "go", Dir: dir, RunDir: dir, Permission: trellis.PermitEdit}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
