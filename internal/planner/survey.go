package planner

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const survey flow.Act[Input, Survey] = "survey"

// Survey is what is known before the first call.
type Survey struct {
	Project  agentcall.Ref                     `json:"project"` // description of the project, for prompts
	Choices  map[trellis.Role]agentcall.Choice `json:"choices"`
	Limits   agentcall.Limits                  `json:"limits"`
	Approval bool                              `json:"approval"` // every plan waits for a person
	Dir      string                            `json:"dir"`      // main checkout
	HasFiles bool                              `json:"has_files"`
	TaskSpec bool                              `json:"taskspec,omitempty"`
	Judge    bool                              `json:"judge,omitempty"`
	Previous *agentcall.Ref                    `json:"previous,omitempty"` // the plan that feedback is about

	Speculate bool `json:"speculate,omitempty"` // make calls ahead of the verdict

	Surroundings string `json:"surroundings,omitempty"` // hash of the agents' settings and the files that they see
}

type surveyor struct {
	files
	checkout
	config *config.Config
	choose func(role trellis.Role, taskAgent, flag string) (agentcall.Choice, error)
}

// survey determines what is fixed for the whole planning: the agent of each role, and the description of the project.
func (v surveyor) survey(ctx context.Context, c flow.Call, in Input) (s Survey, err error) {
	s = Survey{Choices: map[trellis.Role]agentcall.Choice{}, Dir: v.repo.Main, Approval: v.config.Planning.Approval == "plan",
		TaskSpec: v.config.Planning.TaskSpec, Judge: v.config.Planning.Judge,
		Limits: agentcall.Limits{Wall: v.config.Limits.Evaluate, Idle: v.config.Limits.Idle, Tokens: v.config.Limits.Tokens, CostUSD: v.config.Limits.CostUSD, Seconds: float64(v.config.Limits.Seconds)}}
	for _, role := range Roles() {
		choice, err := v.choose(role, "", in.Agent)
		if err != nil {
			return s, err
		}
		s.Choices[role] = choice
	}
	if s.Speculate, err = v.speculates(in); err != nil {
		return s, err
	}
	kept, err := v.keepReplaced(c)
	if err != nil {
		return s, err
	}
	if before, ok := kept[taskdir.Plan]; ok && in.Feedback != "" {
		s.Previous = &before
	}
	s.Surroundings = surroundings(ctx, v.repo, v.config)
	text, files := v.describe()
	s.HasFiles = files
	s.Project, err = v.keep(c, "project.md", []byte(text))
	return s, err
}

// speculates reports whether calls are made ahead. A missing requirement is reported by the call for a verdict.
func (v surveyor) speculates(in Input) (bool, error) {
	if !v.config.Planning.Speculate {
		return false, nil
	}
	requirement, err := taskdir.ReadOptional(v.dir, taskdir.Requirement)
	return requirement != nil && !looksTiny(requirement, in), err
}
