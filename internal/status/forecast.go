package status

import "github.com/trellis-tasks/trellis/internal/trellis"

// Forecast is what a task may take from its start to its end, by what earlier ones of the project took.
type Forecast struct {
	Tasks     int          `json:"tasks"` // so many earlier ones
	Size      trellis.Size `json:"size"`  // that they had; "": they had any
	Agent     string       `json:"agent"` // that worked on them; "": any did
	Calls     Span         `json:"calls"`
	Tokens    Span         `json:"tokens"`
	CostUSD   *Span        `json:"cost_usd"` // null: nobody knows what they cost
	Estimated bool         `json:"cost_estimated"`
	Minutes   Span         `json:"minutes"` // of agents and checks
}

// Span is between what numbers lie, and the one in the middle.
type Span struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
}
