package status

import "github.com/trellis-tasks/trellis/internal/trellis"

// Forecast is what a task may take from its start to its end, based on earlier tasks of the project.
type Forecast struct {
	Tasks     int          `json:"tasks"` // how many earlier tasks it is based on
	Size      trellis.Size `json:"size"`  // of those tasks; "": any size
	Agent     string       `json:"agent"` // of those tasks; "": any agent
	Calls     Span         `json:"calls"`
	Tokens    Span         `json:"tokens"`
	CostUSD   *Span        `json:"cost_usd"` // null: unknown
	Estimated bool         `json:"cost_estimated"`
	Minutes   Span         `json:"minutes"` // of agents and checks
}

// Span is the range in which a number is likely to lie, and the median.
type Span struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
}
