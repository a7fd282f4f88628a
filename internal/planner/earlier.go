package planner

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Earlier: when a planning failed, those who answered before it did are not paid again by the next one, as long as they would be
// asked the same: the same agent, word for word, over the same files. The next one has the nonce of the one that failed then, so
// that its prompts are the same, and by that it is known again when it is cut off in its turn.

// looks tells whether agents see the same files. Settings are none of them: to raise a limit is what a planning often fails for.
func looks(ctx context.Context, repo *git.Repo) (string, error) {
	return repo.Index().Digest(ctx, repo.Main, ".trellis/tasks", ".trellis/objectives", ".trellis/.runtime", ".trellis/config.yaml")
}

// Nonce is that of the planning that h is the journal of, if another one goes on with what its agents answered; else "".
func Nonce(ctx context.Context, repo *git.Repo, h *journal.History) (string, error) {
	if h.Flow != Flow || !h.Ended || h.End == nil {
		return "", nil
	}
	var sv Survey
	var in Input
	for _, e := range h.Calls {
		if e.Activity == string(survey) && e.Done && e.Fail == nil && json.Unmarshal(e.Out, &sv) != nil {
			return "", nil
		}
	}
	if sv.Checkout == "" || json.Unmarshal(h.Input, &in) != nil { // an earlier trellis began it
		return "", nil
	}
	now, err := looks(ctx, repo)
	if err != nil || now != sv.Checkout {
		return "", err
	}
	return in.Nonce, nil
}

// earlier are calls of the planning before, as far as they were answered.
type earlier struct {
	files
	calls []agentcall.Made
}

// Earlier has the calls of a planning, whose journal is h, answered by the planning before it where both have one nonce.
func (d Deps) Earlier(calls *agentcall.Caller, h *journal.History) error {
	paths, err := journal.Archived(filepath.Join(d.Dir, taskdir.Run))
	if err != nil || len(paths) == 0 {
		return err
	}
	before, err := journal.ReadFile(paths[len(paths)-1])
	if err != nil {
		return nil // it was put aside because it is damaged
	}
	var was, is Input
	if json.Unmarshal(before.Input, &was) != nil || json.Unmarshal(h.Input, &is) != nil || was.Nonce != is.Nonce || before.Build != h.Build {
		return nil
	}
	known := earlier{files: d.files()}
	for _, e := range before.Calls {
		var m agentcall.Made
		if e.Done && e.Fail == nil && json.Unmarshal(e.In, &m.Request) == nil && m.Request.Role != "" && json.Unmarshal(e.Out, &m.Reply) == nil {
			known.calls = append(known.calls, m)
		}
	}
	calls.Known = known.find
	return nil
}

// find is the answer to a request with that prompt. What it took was counted then.
func (k earlier) find(r agentcall.Request, prompt string) (reply agentcall.Reply, ok bool) {
	for _, m := range k.calls {
		q := m.Request
		if m.Reply.Prompt.SHA256 != prompt || m.Reply.Failure != nil || len(m.Reply.Problems) > 0 ||
			q.Role != r.Role || q.Agent != r.Agent || q.Model != r.Model || q.Permission != r.Permission || q.Schema != r.Schema || q.Session != r.Session {
			continue
		}
		if _, err := k.read(m.Reply.Text); err != nil { // somebody tidied up
			continue
		}
		m.Reply.Known, m.Reply.Usage = true, trellis.Usage{}
		return m.Reply, true
	}
	return reply, false
}
