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

// instructionReader returns a function that reads the project's instructions for a role: the current ones if they are trusted, otherwise
// those that were trusted last. Trusted instructions are not judged again while they don't change. agents are the known names.
func (p *Project) instructionReader(ctx context.Context, agents []string) func(trellis.Role) (runner.Instructions, error) {
	var mu sync.Mutex
	known := map[string]bool{}
	return func(role trellis.Role) (runner.Instructions, error) {
		texts, err := readRoleTexts(p.Settings.Dir(), role)
		if err != nil || p.Gate.existingJudge() == nil || p.Settings.Kept != "" {
			return texts.instructions(role, agents, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if known[fmt.Sprintf("%q", texts)] {
			return texts.instructions(role, agents, nil)
		}
		v, err := p.Gate.judge.Subject(ctx, subject.Settings().Of(texts))
		if err != nil || v.Trusted() {
			known[fmt.Sprintf("%q", texts)] = err == nil
			return texts.instructions(role, agents, err)
		}
		texts, err = p.trustedRoleTexts(ctx, role, v)
		return texts.instructions(role, agents, err)
	}
}

// trustedRoleTexts returns the texts for a role from the settings that were trusted last. If those have been checked out again by
// now, so that no earlier ones are in force, it returns v's error and the caller has to ask again.
func (p *Project) trustedRoleTexts(ctx context.Context, role trellis.Role, v trust.Verdict) (roleTexts, error) {
	trusted, err := p.InForce(ctx)
	if err == nil && trusted.Settings.Kept == "" {
		err = v.Err()
	}
	if err != nil {
		return nil, err
	}
	return readRoleTexts(trusted.Settings.Dir(), role)
}

// roleTexts maps the paths of a project's files for a role to their contents, nil for a file that doesn't exist.
type roleTexts map[string][]byte

func frameFile(role trellis.Role) string { return ".trellis/templates/" + string(role) + ".md.tmpl" }

// roleFile returns the path of a role's file, "" for a template that belongs to no role.
func roleFile(role trellis.Role) string {
	if role == "step" { // a step is done by the implement role
		role = trellis.Implement
	}
	if !slices.Contains(trellis.Roles, role) {
		return ""
	}
	return ".trellis/agents/" + string(role) + ".md"
}

// Instructions returns what the files below root tell a role, trusted or not. known are the names of the known agents.
func Instructions(root string, role trellis.Role, known []string) (runner.Instructions, error) {
	texts, err := readRoleTexts(root, role)
	return texts.instructions(role, known, err)
}

// readRoleTexts reads a role's texts below root.
func readRoleTexts(root string, role trellis.Role) (roleTexts, error) {
	w := roleTexts{}
	for _, name := range []string{frameFile(role), roleFile(role)} {
		if name == "" {
			continue
		}
		data, err := durable.ReadBelow(root, name, durable.MaxDocument)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, trellis.UnreadableProblem(name, err)
		}
		w[name] = data
	}
	return w, nil
}

// instructions parses the texts for a role, unless unread is an error of reading them. known are the names of the known agents,
// nil if they can't be determined.
func (w roleTexts) instructions(role trellis.Role, known []string, unread error) (in runner.Instructions, err error) {
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
