package plan

// Outline is the plan as text, for the agent that implements it.
func (p *Plan) Outline() string { return p.Title + "\n" }
