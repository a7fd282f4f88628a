package planner

import (
	"encoding/json"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The activities of a planning, besides the calls of its roles.
const (
	survey flow.Act[Input, Survey]      = "survey"
	reject flow.Act[rejectIn, int64]    = "reject"
	digest flow.Act[digestIn, Findings] = "digest"
	settle flow.Act[settleIn, settled]  = "settle" // the TaskSpec
	draft  flow.Act[draftIn, Draft]     = "draft"  // a plan that the code checks found nothing in
	write  flow.Act[writeIn, written]   = "write"
	check  flow.Act[struct{}, checked]  = "ready"
	finish flow.Act[finishIn, int64]    = "finish"
	giveUp flow.Act[giveUpIn, int64]    = "give-up"
)

type (
	// Survey is what is known before the first call.
	Survey struct {
		Project  agentcall.Ref                     `json:"project"` // what the project is, for prompts
		Choices  map[trellis.Role]agentcall.Choice `json:"choices"`
		Limits   agentcall.Limits                  `json:"limits"`
		Approval bool                              `json:"approval"` // every plan waits for a person
		Dir      string                            `json:"dir"`      // main checkout
		HasFiles bool                              `json:"has_files"`
		TaskSpec bool                              `json:"taskspec,omitempty"`
		Judge    bool                              `json:"judge,omitempty"`
		Previous *agentcall.Ref                    `json:"previous,omitempty"` // the plan that feedback is about
	}
	// Findings is what the research came to, checked against the repository.
	Findings struct {
		Scope     string         `json:"scope,omitempty"`
		Commands  []string       `json:"commands,omitempty"`
		Protected []string       `json:"protected,omitempty"`
		Warnings  []string       `json:"warnings,omitempty"`
		Contexts  map[string]int `json:"contexts"`
		NewArea   bool           `json:"new_area,omitempty"` // nothing usable was found
	}
	// Draft is a plan that passed the code checks.
	Draft struct {
		Plan     agentcall.Ref `json:"plan"` // as plan.json is going to be
		Title    string        `json:"title"`
		Steps    int           `json:"steps"`
		Warnings []string      `json:"warnings,omitempty"`
		Guarded  []string      `json:"guarded,omitempty"` // protected paths that it says it changes
	}
	rejectIn struct {
		Verdict Verdict       `json:"verdict"`
		Usage   trellis.Usage `json:"usage"`
	}
	digestIn struct {
		Input    Input          `json:"input"`
		Research *agentcall.Ref `json:"research,omitempty"`
	}
	settleIn struct {
		Answer      json.RawMessage `json:"answer,omitempty"` // none: a stub is made of the requirement
		Constraints []string        `json:"constraints,omitempty"`
	}
	settled struct {
		Spec agentcall.Ref `json:"spec"` // taskspec.json
		Said Spec          `json:"said"`

		Warnings []string `json:"warnings,omitempty"`
	}
	draftIn struct {
		Answer json.RawMessage `json:"answer"`
		Ground ground          `json:"ground"`
	}
	writeIn struct {
		Input    Input          `json:"input"`
		Verdict  Verdict        `json:"verdict"`
		Findings Findings       `json:"findings"`
		Document Document       `json:"document"`
		Waits    bool           `json:"waits"`
		Plan     *agentcall.Ref `json:"plan,omitempty"`
		Research *agentcall.Ref `json:"research,omitempty"` // whose technical notes prd.md has, beside a plan
		TaskSpec *agentcall.Ref `json:"taskspec,omitempty"`
		Priority string         `json:"priority,omitempty"` // as the TaskSpec says it
		Judge    *Judgement     `json:"judge,omitempty"`
	}
	written struct {
		Warnings []string `json:"warnings,omitempty"`
	}
	checked struct {
		Problems []*trellis.Problem `json:"problems,omitempty"`
		Dropped  []string           `json:"dropped,omitempty"`
	}
	finishIn struct {
		Status trellis.Status `json:"status"`
		Usage  trellis.Usage  `json:"usage"`
	}
	giveUpIn struct {
		Failure *flow.Failure `json:"failure"`
		Usage   trellis.Usage `json:"usage"`
	}
	// ground is what a plan is checked against.
	ground struct {
		TaskSpec  *agentcall.Ref `json:"taskspec,omitempty"`
		Commands  []string       `json:"commands"` // confirmed by the research, in order
		Protected []string       `json:"protected,omitempty"`
	}
	// about is the Data of a planning role's request: what its prompt is made of.
	about struct {
		Input    Input          `json:"input"`
		Project  agentcall.Ref  `json:"project"`
		Verdict  *Verdict       `json:"verdict,omitempty"`
		Research *agentcall.Ref `json:"research,omitempty"`
		Sent     int            `json:"sent,omitempty"` // how often research was sent back for want of a look
		Ground   *ground        `json:"ground,omitempty"`
		Plan     *agentcall.Ref `json:"plan,omitempty"`  // judge: the plan; plan: the one before
		Tries    []try          `json:"tries,omitempty"` // why plans before this one came back
		Round    int            `json:"round,omitempty"`
		Why      string         `json:"why,omitempty"` // why the last one came back, for people
	}
	// try is a plan that came back.
	try struct {
		By   string   `json:"by"`
		Said []string `json:"said"`
	}
)
