package planner

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Answered: if a planning failed for lack of an agent, a budget or time, its answers are reused by the next one, as long as the
// requests would be the same: the same program and prompt, over the same files. The next planning takes over the nonce of the
// failed one, which makes its prompts the same. If it is interrupted in turn, the nonce also identifies it.

// externalFailures are the failures for which no answer is to blame: with the same answers the next planning may succeed.
var externalFailures = []trellis.Code{trellis.AgentMissing, trellis.AgentAuth, trellis.AgentExit, trellis.AgentSignal, trellis.EmptyOutput, trellis.TimeoutWall, trellis.TimeoutIdle,
	trellis.RateLimited, trellis.ProviderDown, trellis.QuotaExhausted, trellis.BudgetTokens, trellis.BudgetCost, trellis.BudgetTime}

// surroundings returns a value that is equal at two moments if the same programs would see the same files. Of the settings only
// agents and sandbox count: raising a limit is often what a failed planning needs. "" equals no other value.
func surroundings(ctx context.Context, repo *git.Repo, cfg *config.Config) string {
	files, err := repo.Index().Digest(ctx, repo.Main, ".trellis/tasks", ".trellis/objectives", ".trellis/.runtime", ".trellis/config.yaml")
	if err != nil || files == "" {
		return "" // the agents are asked again, which reports the error of git
	}
	who := cfg.Agents
	who.Prices = nil
	programs, err := json.Marshal(who)
	if err != nil {
		return ""
	}
	return agentcall.SHA256Hex(append(programs, string(cfg.Sandbox)+" "+files...))
}

// surroundingsOf returns the surroundings of a planning, "" if its journal has none.
func surroundingsOf(h *journal.History) string {
	var sv Survey
	for _, e := range h.Calls {
		if e.Activity == string(survey) && e.Done && e.Fail == nil && json.Unmarshal(e.Out, &sv) != nil {
			return ""
		}
	}
	return sv.Surroundings
}

// Nonce returns the nonce of a planning that failed, if its answers can be reused by the next one; else "".
func Nonce(ctx context.Context, repo *git.Repo, cfg *config.Config, h *journal.History) string {
	var in Input
	if h.Flow != Flow || !h.Ended || h.End == nil || !slices.Contains(externalFailures, trellis.Code(h.End.Code)) || json.Unmarshal(h.Input, &in) != nil {
		return ""
	}
	if then := surroundingsOf(h); then == "" || then != surroundings(ctx, repo, cfg) {
		return ""
	}
	return in.Nonce
}

// earlierAnswers are the calls of the previous planning.
type earlierAnswers struct {
	files
	check func(r agentcall.Request, answer json.RawMessage) []string
	calls []agentcall.CompletedCall
}

// Reuse has the calls of a planning, whose journal is h, answered from the previous planning, if both have the same nonce and the
// surroundings have not changed.
func (d Deps) Reuse(ctx context.Context, calls *agentcall.Caller, h *journal.History) error {
	paths, err := journal.Archived(filepath.Join(d.Dir, taskdir.Run))
	if err != nil || len(paths) == 0 {
		return err
	}
	before, err := journal.ReadFile(paths[len(paths)-1])
	if err != nil {
		return nil // it was set aside because it is damaged
	}
	var was, is Input
	if json.Unmarshal(before.Input, &was) != nil || json.Unmarshal(h.Input, &is) != nil || was.Nonce != is.Nonce || before.Build != h.Build {
		return nil
	}
	if then := surroundingsOf(before); then == "" || then != surroundings(ctx, d.Repo, d.Config) {
		return nil
	}
	a := earlierAnswers{files: d.files(), check: d.prompts().check}
	for _, e := range before.Calls {
		var m agentcall.CompletedCall
		if e.Done && e.Fail == nil && json.Unmarshal(e.In, &m.Request) == nil && m.Request.Role != "" && json.Unmarshal(e.Out, &m.Reply) == nil {
			a.calls = append(a.calls, m)
		}
	}
	calls.Known = a.find
	return nil
}

// find returns the answer to a request with that prompt, if it is still valid. Its usage was counted by the previous planning, and
// its notes were reported then.
func (a earlierAnswers) find(r agentcall.Request, prompt string) (reply agentcall.Reply, ok bool) {
	for _, m := range a.calls {
		q := m.Request
		if m.Reply.Prompt.SHA256 != prompt || m.Reply.Failure != nil || len(m.Reply.Problems) > 0 ||
			q.Role != r.Role || q.Agent != r.Agent || q.Model != r.Model || q.Permission != r.Permission || q.Schema != r.Schema || q.Session != r.Session {
			continue
		}
		said, err := a.read(m.Reply.Text)
		if err != nil { // a person removed the file
			continue
		}
		answer := m.Reply.Answer
		if r.Schema == "" {
			answer = json.RawMessage(said)
		}
		if len(a.check(r, answer)) > 0 {
			continue
		}
		m.Reply.Known, m.Reply.Usage, m.Reply.Notes = true, trellis.Usage{}, nil
		return m.Reply, true
	}
	return reply, false
}
