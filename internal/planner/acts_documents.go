package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// constrain adds what must hold whatever is planned to the requirements, as far as they don't say it.
func (d *Document) constrain(constraints []string) {
	for _, c := range constraints {
		if !slices.Contains(d.Requirements, c) {
			d.Requirements = append(d.Requirements, c)
		}
	}
}

func bullets(b *strings.Builder, list []string) {
	for _, s := range list {
		fmt.Fprintf(b, "- %s\n", oneLine(s))
	}
}

// codeSpan is s between more backticks than it holds in a row.
func codeSpan(s string) string {
	ticks, row := 1, 0
	for _, r := range s {
		if row++; r != '`' {
			row = 0
		}
		ticks = max(ticks, row+1)
	}
	fence, pad := strings.Repeat("`", ticks), ""
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		pad = " "
	}
	return fence + pad + s + pad + fence
}

// reasons are the labels of the five categories, as REJECTED.md shows them.
var reasons = map[string]string{
	"unclear":      "Unclear or Vague",
	"incomplete":   "Incomplete Information",
	"out_of_scope": "Out of Scope for This Project",
	"harmful":      "Potentially Harmful",
	"too_large":    "Too Large / Should Be Split",
}

// Rejection is what REJECTED.md says.
type Rejection struct {
	Category    string // one of the five, or empty when a person rejected
	By          string // the person
	Details     string
	Suggestions []string
	Dir         string // the task's directory relative to the repository
	Name        string
	DevType     string
}

// Reason is the rejection's label.
func (r Rejection) Reason() string {
	if r.By != "" {
		return "Rejected by " + r.By
	}
	return reasons[r.Category]
}

// Render is REJECTED.md.
func (r Rejection) Render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Plan Rejected\n\n## Reason\n\n%s\n\n## Details\n\n%s\n\n## Suggestions\n\n", r.Reason(), strings.TrimSpace(r.Details))
	bullets(&b, r.Suggestions)
	dir, name := trellis.ShellWord(r.Dir), trellis.ShellWord(r.Name)
	fmt.Fprintf(&b, "\n## To Retry\n\nPlan again in place, which keeps this page as REJECTED-1.md:\n\n    trellis plan --retry %s --requirement '<revised requirement>'\n", dir)
	fmt.Fprintf(&b, "\nOr remove the directory and begin afresh:\n\n    trellis task rm %s\n    trellis plan --name %s --type %s --requirement '<revised requirement>'\n", dir, name, trellis.ShellWord(orBackend(r.DevType)))
	return trellis.Visible(b.String())
}

func orBackend(devType string) string {
	if devType == "" {
		return trellis.DevTypes[0]
	}
	return devType
}
