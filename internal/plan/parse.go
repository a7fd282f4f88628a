package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Parse reads a plan.json and returns the problems of its JSON, its keys and its values, in the order of the file. The plan is
// nil if one of the problems is an error. Further checks are left to [Plan.Check]. It is for plans that are being written:
// [Load] also reads YAML and files of other tools.
func Parse(data []byte) (*Plan, []Problem) {
	d, broken := parseDocument(data)
	if broken != nil {
		return nil, []Problem{*broken}
	}
	if f, tool := d.foreignKey(); f != nil {
		return nil, []Problem{{Pointer: "/" + f.key, Line: f.line, Message: "this is a file of " + tool + ", not a plan.json",
			Hint: `write it as a plan.json: "title" and "steps" with "id" and "prompt" or "command"`}}
	}
	p, problems := d.plan()
	if p != nil {
		p.fillChecks()
	}
	return p, problems
}

// plan returns the document's plan, nil if it is not a valid one.
func (d *document) plan() (*Plan, []Problem) {
	problems, end := d.version()
	if end {
		return nil, problems
	}
	if wrong := d.schemaProblems("plan"); len(wrong) > 0 {
		return nil, append(problems, wrong...)
	}
	p := &Plan{SchemaVersion: SchemaVersion, lines: d.lines, tool: d.tool, originals: d.originals}
	if err := json.Unmarshal([]byte(d.text), p); err != nil {
		return nil, append(problems, Problem{Line: d.root.line, Message: err.Error()})
	}
	return p, problems
}

// fillChecks fills the values of vars into the commands that Trellis runs itself.
func (p *Plan) fillChecks() {
	for i := range p.Preconditions {
		p.Preconditions[i].Command = p.fill(p.Preconditions[i].Command)
	}
	for i := range p.Acceptance {
		p.Acceptance[i].Verify = p.fill(p.Acceptance[i].Verify)
	}
}

// version checks the version of the format. end reports that it is not supported.
func (d *document) version() (problems []Problem, end bool) {
	v := d.root.member("schema_version")
	if v == nil {
		if d.root.open != '{' {
			return nil, false
		}
		return []Problem{{Line: d.root.line, Message: fmt.Sprintf("schema_version is missing: taken for %d", SchemaVersion),
			Hint: fmt.Sprintf(`write "schema_version": %d`, SchemaVersion), Warning: true}}, false
	}
	if n, err := strconv.Atoi(v.node.text); err == nil && n > SchemaVersion {
		return []Problem{{Pointer: "/schema_version", Line: v.line, Message: fmt.Sprintf("is %d, a later version than %d, which this trellis reads", n, SchemaVersion),
			Hint: "use the trellis that wrote it"}}, true
	}
	return nil, false
}

// UnmarshalJSON accepts a sentence, or {"command": "…"}.
func (p *Precondition) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &p.Text) == nil {
		return nil
	}
	var o struct{ Command string }
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("reading precondition: %w", err)
	}
	p.Command = o.Command
	return nil
}

// MarshalJSON writes a format that UnmarshalJSON accepts.
func (p Precondition) MarshalJSON() ([]byte, error) {
	if p.Command == "" {
		return json.Marshal(p.Text)
	}
	return json.Marshal(map[string]string{"command": p.Command})
}

// UnmarshalJSON accepts a list of items, or a command.
func (f *ForEach) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &f.Command) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &f.Items); err != nil {
		return fmt.Errorf("reading for_each: %w", err)
	}
	return nil
}

// MarshalJSON writes a format that UnmarshalJSON accepts.
func (f ForEach) MarshalJSON() ([]byte, error) {
	if f.Command != "" {
		return json.Marshal(f.Command)
	}
	return json.Marshal(slices.Concat([]string{}, f.Items))
}

// placeholder matches {{name}}, and also ${{name}}, which is not a placeholder.
var placeholder = trellis.Pattern(`\$?\{\{[A-Za-z_][A-Za-z0-9_]*\}\}`)

// placeholders returns the names between {{ and }} in a text, each once. {{ x }}, ${{x}} and {{.Go}} are not placeholders.
func placeholders(text string) (names []string) {
	if !strings.Contains(text, "{{") {
		return nil
	}
	for _, found := range placeholder().FindAllString(text, -1) {
		if name := strings.Trim(found, "{}"); found[0] != '$' && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// fill replaces placeholders in a text by the values of vars.
func (p *Plan) fill(text string) string { return Fill(text, scope{}.inFile("", p, nil).values) }

// names returns a map's keys, sorted.
func names(vars map[string]*string) []string { return slices.Sorted(maps.Keys(vars)) }
