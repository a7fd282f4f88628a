// Package trellis defines the basic types of Trellis: statuses and their transitions, roles, failure codes, names, problems,
// usage. It does no I/O.
package trellis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Outcome is how the last run of a task ended.
type Outcome string

const (
	Delivered      Outcome = "delivered"
	NoChangeNeeded Outcome = "no_change_needed"
	OutcomeFailed  Outcome = "failed"
	OutcomeReject  Outcome = "rejected"
	OutcomeCancel  Outcome = "cancelled"
	Merged         Outcome = "merged"
)

// Size is the amount of work that a requirement takes, as estimated by the evaluate agent.
type Size string

const (
	Tiny   Size = "tiny"
	Small  Size = "small"
	Medium Size = "medium"
	Large  Size = "large"
)

// Values that task.json allows.
var (
	DevTypes   = []string{"backend", "frontend", "fullstack", "test", "docs"}
	Priorities = []string{"P0", "P1", "P2", "P3"}
	Sizes      = []Size{Tiny, Small, Medium, Large}
)

// MaxName is the maximum length of a task name, in bytes.
const MaxName = 60

var nameRule = Pattern(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// ValidName reports whether s can be the name of a task.
func ValidName(s string) bool { return len(s) <= MaxName && nameRule().MatchString(s) }

// Problem is a problem in a file, and what to do about it.
type Problem struct {
	File    string `json:"file"` // relative to the repository if it is inside
	Line    int    `json:"line"` // from 1; 0 if unknown
	Column  int    `json:"column"`
	Message string `json:"message"`
	Hint    string `json:"hint"` // the next command to type
	Warning bool   `json:"warning"`
}

// Errors returns the problems that are not warnings.
func Errors(problems []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.Warning })
}

// UnreadableProblem returns the problem of a file that can't be read; err supplies the reason, and the hint if it has one.
func UnreadableProblem(file string, err error) *Problem {
	p := &Problem{File: file, Message: "can't be read: " + err.Error(), Hint: "make it a file that you may read"}
	var unfit interface {
		Reason() string
		Mend() string
	}
	if errors.As(err, &unfit) {
		p.Message, p.Hint = unfit.Reason(), unfit.Mend()
	}
	return p
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Usage is what agents used. CostUSD is nil if an agent does not report it: unknown, not free.
type Usage struct {
	InputTokens  int64    `json:"input_tokens"` // without cached tokens
	OutputTokens int64    `json:"output_tokens"`
	CachedTokens int64    `json:"cached_tokens"`
	CostUSD      *float64 `json:"cost_usd"`
	Seconds      float64  `json:"seconds"` // wall time of agents

	CostEstimated bool `json:"cost_estimated,omitempty"` // part of CostUSD is computed from list prices, as an agent reported only its tokens
	CostPartial   bool `json:"cost_partial,omitempty"`   // part of the usage is not in CostUSD, as its cost is unknown
}

// Tokens returns the sum of all tokens.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens + u.CachedTokens }

// Unpriced reports whether there is usage with unknown cost.
func (u Usage) Unpriced() bool { return u.CostUSD == nil && (u.Tokens() > 0 || u.Seconds > 0) }

// Add returns the sum of u and v. Its cost is known if either cost is; see [Usage.CostPartial].
func (u Usage) Add(v Usage) Usage {
	sum := Usage{u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens, u.CachedTokens + v.CachedTokens, u.CostUSD, u.Seconds + v.Seconds,
		u.CostEstimated || v.CostEstimated, u.CostPartial || v.CostPartial}
	if v.CostUSD != nil {
		c := *v.CostUSD
		if u.CostUSD != nil {
			c += *u.CostUSD
		}
		sum.CostUSD = &c
	}
	if sum.CostUSD != nil && (u.Unpriced() || v.Unpriced()) {
		sum.CostPartial = true
	}
	return sum
}

// TaskTrailer is the commit trailer that names the task that a commit was made for.
const TaskTrailer = "Trellis-Task"
