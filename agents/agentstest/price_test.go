package agentstest_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/agents/modelserver"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/prices"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// priced gives two answers, the second of which is partly read from the provider's cache.
var priced = modelserver.Play(
	modelserver.Turn{Usage: modelserver.Usage{Input: 9000, Output: 300, Written: 8000}, Calls: []modelserver.Call{modelserver.Shell("echo hi")}},
	modelserver.Turn{Usage: modelserver.Usage{Input: 1500, Output: 200, Cached: 8000}, Text: "done"})

// counted returns what the server counted, in the form in which agents report it.
func counted(s *modelserver.Server) trellis.Usage {
	u := s.Used()
	return trellis.Usage{InputTokens: int64(u.Input), OutputTokens: int64(u.Output), CachedTokens: int64(u.Cached)}
}

// The real programs report exactly the tokens that their server counted. The cost is the reported one, or estimated by the prices of
// the model, which the program's settings may name, or unknown. Of the two programs that report it opencode is left to TRELLIS_SOAK.
func TestCostOfPrograms(t *testing.T) {
	t.Parallel()
	own := prices.Table{"mine": {Input: 1, Output: 2, CacheRead: 0.5}}
	type program struct {
		cli, model string
		table      prices.Table
		settings   string        // the model that the program's own settings name
		price      *prices.Price // nil: the cost is unknown
		estimated  bool
	}
	for name, c := range soak.Rows(t, map[string]program{
		"codex, asked":              {agents.Codex, "gpt-5.5", nil, "", of(t, nil, "gpt-5.5"), true},
		"codex, by its settings":    {agents.Codex, "", nil, "gpt-5.1-codex", of(t, nil, "gpt-5.1-codex"), true},
		"codex, our own price":      {agents.Codex, "mine", own, "", of(t, own, "mine"), true},
		"codex, nobody's":           {agents.Codex, "", own, "mock-1", nil, false},
		"opencode, by its settings": {agents.OpenCode, "", nil, "", &prices.Price{Input: 1, Output: 10, CacheRead: 0.1}, false},
		"claude":                    {agents.Claude, "claude-haiku-4-5", nil, "", of(t, nil, "claude-haiku-4-5"), false},
	}, "codex, asked", "codex, by its settings", "codex, our own price", "codex, nobody's", "claude") {
		t.Run(name, func(t *testing.T) {
			server := serve(t, priced)
			env := agentstest.RealEnv(t, c.cli, server.URL)
			if c.settings != "" {
				rename(t, env, c.settings)
			}
			a, err := agents.New(c.cli, agents.Options{Environ: env, Prices: c.table})
			if err != nil {
				t.Fatal(err)
			}
			res, err := a.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: "do it", Dir: t.TempDir(), Permission: trellis.PermitEdit, Model: c.model,
				RunDir: t.TempDir(), Marker: "price-" + filepath.Base(t.TempDir())}, nil)
			if err != nil || !sameTokens(res.Usage, counted(server)) || res.Usage.Tokens() != 19_000 {
				t.Fatalf("got %+v, %v, want %+v", res, err, counted(server))
			}
			if c.model+c.settings != "" && res.Model != c.model+c.settings {
				t.Errorf("got the model %q", res.Model)
			}
			costs(t, res.Usage, c.price, c.estimated, int64(server.Used().Written))
		})
	}
}

// of returns the price of a model, which has to be known.
func of(t *testing.T, table prices.Table, model string) *prices.Price {
	t.Helper()
	p, ok := table.Of(model)
	if !ok {
		t.Fatalf("there is no price of %s", model)
	}
	return &p
}

// rename makes codex's settings name another model.
func rename(t *testing.T, env []string, model string) {
	t.Helper()
	for _, kv := range env {
		if home, ok := strings.CutPrefix(kv, "HOME="); ok {
			file := filepath.Join(home, ".codex", "config.toml")
			put(t, file, strings.Replace(get(t, file), "mock-1", model, 1), 0o600)
		}
	}
}

// costs compares a cost with that by price p. Writes to a cache, of which codex and opencode are not told, count if they cost more.
func costs(t *testing.T, u trellis.Usage, p *prices.Price, estimated bool, written int64) {
	t.Helper()
	if p == nil {
		if u.CostUSD != nil || u.CostEstimated {
			t.Errorf("got a cost of %v, which nobody knows", *u.CostUSD)
		}
		return
	}
	if p.CacheWrite <= p.Input {
		written = 0
	}
	if want := p.Cost(u, written); u.CostUSD == nil || math.Abs(*u.CostUSD-want) > 1e-9 || u.CostEstimated != estimated {
		t.Errorf("got a cost of %v, estimated: %t, want %v, %t", u.CostUSD, u.CostEstimated, want, estimated)
	}
}

// A program that is cut off reports no cost, and a model without a program never does: both costs are estimated.
func TestCostIsEstimated(t *testing.T) {
	t.Parallel()
	haiku := of(t, nil, "claude-haiku-4-5")
	stream := regexp.MustCompile(`"model":"[^"]*"`).ReplaceAllString(recorded(t, agents.Claude, "answers"), `"model":"claude-haiku-4-5-20251001"`)
	begun, _, _ := strings.Cut(stream, `{"type":"result"`)
	g := struck(t, agents.Claude, fake{stream: begun}, idle)
	if g.result == nil || g.result.Usage.Tokens() == 0 {
		t.Fatalf("got %+v, %v", g.result, g.err)
	}
	costs(t, g.result.Usage, haiku, true, 0)

	for kind, model := range map[string]string{agents.Anthropic: "claude-haiku-4-5", agents.OpenAI: "openai/gpt-5-mini", "": "unheard-of"} {
		api, want := agents.API{Kind: kind, Model: model}, &prices.Price{}
		if kind == "" {
			api.Kind, want = agents.OpenAI, nil
		} else {
			want = of(t, nil, model)
		}
		server := serve(t, modelserver.Play(modelserver.Turn{Text: "yes", Usage: modelserver.Usage{Input: 5000, Output: 70, Cached: 900}}))
		if api.BaseURL = server.URL; api.Kind == agents.OpenAI {
			api.BaseURL += "/v1"
		}
		a, err := agents.New("mine", agents.Options{APIs: map[string]agents.API{"mine": api}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := a.Run(t.Context(), agents.Request{Role: trellis.Judge, Prompt: "is it?", Dir: t.TempDir(), RunDir: t.TempDir(), Permission: trellis.PermitNone}, nil)
		if err != nil || !sameTokens(res.Usage, counted(server)) || res.Model != model {
			t.Fatalf("got %+v, %v, want %+v", res, err, counted(server))
		}
		costs(t, res.Usage, want, true, 0)
	}
}

// A cost limit ends a run whose cost is only estimated, before the run has its result.
func TestEstimatedCostIsBounded(t *testing.T) {
	server := serve(t, modelserver.Play(modelserver.Turn{Usage: modelserver.Usage{Input: 50_000, Output: 20}, Calls: []modelserver.Call{modelserver.Shell("echo more")}}))
	a, err := agents.New(agents.Codex, agents.Options{Environ: agentstest.RealEnv(t, agents.Codex, server.URL)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), agentstest.Hang)
	defer cancel()
	r := agents.Request{Role: trellis.Implement, Prompt: "do it", Dir: t.TempDir(), Permission: trellis.PermitEdit, Model: "gpt-5.5", RunDir: t.TempDir(),
		Marker: "bound-" + filepath.Base(t.TempDir()), Limits: agents.Limits{CostUSD: 0.6}}
	res, err := a.Run(ctx, r, nil)
	if !errors.Is(err, &flow.Failure{Code: string(trellis.BudgetCost)}) || res.Usage.CostUSD == nil || *res.Usage.CostUSD < 0.6 || *res.Usage.CostUSD > 2 {
		t.Errorf("got %+v, %v, want %s soon after $0.60", res, err, trellis.BudgetCost)
	}
}

// A program of the project may name its model, and a cost that it reports takes precedence over any estimate.
func TestCostOfCommands(t *testing.T) {
	for script, want := range map[string]struct {
		cost      float64
		estimated bool
	}{
		`{"type": "usage", "model": "gpt-5", "usage": {"input_tokens": 1000000, "output_tokens": 0}}`:                  {1.25, true},
		`{"type": "usage", "model": "gpt-5", "usage": {"input_tokens": 1000000, "output_tokens": 0, "cost_usd": 0.5}}`: {0.5, false},
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "agent.sh"), "cat >/dev/null; echo '"+script+"'; echo '{\"type\": \"result\", \"text\": \"done\"}'", 0o700)
		a, err := agents.New("mine", agents.Options{Environ: os.Environ(), Root: dir, Commands: map[string]agents.Command{"mine": {Argv: []string{"sh", "agent.sh"}, Output: "events"}}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := a.Run(t.Context(), agents.Request{Role: trellis.Implement, Prompt: "go", Dir: dir, RunDir: t.TempDir(), Permission: trellis.PermitEdit}, nil)
		if err != nil || res.Usage.CostUSD == nil || *res.Usage.CostUSD != want.cost || res.Usage.CostEstimated != want.estimated || res.Model != "gpt-5" {
			t.Errorf("%s: got %+v, %v", script, res, err)
		}
	}
}
