package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
	"github.com/trellis-tasks/trellis/specs"
)

// instruct says what the project tells a role: as it is now when that is trusted, else as it was trusted last. What was
// judged is not judged again as long as it stays. Agents are the names of those that there are.
func (p *Project) instruct(ctx context.Context, agents []string) func(trellis.Role) (runner.Instructions, error) {
	var mu sync.Mutex
	known := map[string]bool{}
	return func(role trellis.Role) (runner.Instructions, error) {
		words, err := wordsFor(p.Settings.Dir(), role)
		if err != nil || p.Gate.existingJudge() == nil || p.Settings.Kept != "" {
			return words.instructions(role, agents, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if known[fmt.Sprintf("%q", words)] {
			return words.instructions(role, agents, nil)
		}
		v, err := p.Gate.judge.Subject(ctx, subject.Settings().Of(words))
		if err != nil || v.Trusted() {
			known[fmt.Sprintf("%q", words)] = err == nil
			return words.instructions(role, agents, err)
		}
		words, err = p.wordsInForce(ctx, role, v)
		return words.instructions(role, agents, err)
	}
}

// wordsInForce is what a role was told by the settings that were trusted last. Where those are checked out again by now, so that
// none of before are in force, who asked has to ask again.
func (p *Project) wordsInForce(ctx context.Context, role trellis.Role, v trust.Verdict) (roleWords, error) {
	from, err := p.InForce(ctx)
	if err == nil && from.Settings.Kept == "" {
		err = v.Err()
	}
	if err != nil {
		return nil, err
	}
	return wordsFor(from.Settings.Dir(), role)
}

// roleWords are the files in which the project says something to a role, by their paths, nil for one that is not there.
type roleWords map[string][]byte

func frameFile(role trellis.Role) string { return ".trellis/templates/" + string(role) + ".md.tmpl" }

// roleFile is that of a role, "" for a template that is no role's.
func roleFile(role trellis.Role) string {
	if role == "step" { // who does a step implements
		role = trellis.Implement
	}
	if !slices.Contains(trellis.Roles, role) {
		return ""
	}
	return ".trellis/agents/" + string(role) + ".md"
}

// Instructions are what the files below root tell a role, whether they are trusted or not, where these agents are known.
func Instructions(root string, role trellis.Role, known []string) (runner.Instructions, error) {
	words, err := wordsFor(root, role)
	return words.instructions(role, known, err)
}

// wordsFor are those below root.
func wordsFor(root string, role trellis.Role) (roleWords, error) {
	w := roleWords{}
	for _, name := range []string{frameFile(role), roleFile(role)} {
		if name == "" {
			continue
		}
		data, err := durable.ReadBelow(root, name, durable.MaxDocument)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, trellis.Unread(name, err)
		}
		w[name] = data
	}
	return w, nil
}

// instructions are what they say, unless reading them failed. Known are the names of the agents that there are, nil where nobody
// can say.
func (w roleWords) instructions(role trellis.Role, known []string, unread error) (in runner.Instructions, err error) {
	if unread != nil {
		return in, unread
	}
	in.Override.Frame = w[frameFile(role)]
	name := roleFile(role)
	if w[name] == nil {
		return in, nil
	}
	if role == "step" {
		role = trellis.Implement
	}
	r, problem := specs.ParseRole(name, role, w[name], known)
	if problem != nil {
		return in, problem
	}
	in.Agent, in.Model, in.Permission, in.Override.Instructions = r.Agent, r.Model, r.Permission, r.Body
	return in, nil
}
