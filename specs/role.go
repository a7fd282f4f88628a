package specs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/criteria"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"go.yaml.in/yaml/v3"
)

// Role is the content of .trellis/agents/<role>.md.
type Role struct {
	Description string             `yaml:"description"`
	Agent       string             `yaml:"agent"`      // "": not specified
	Model       string             `yaml:"model"`      // for Agent, or for whichever agent plays the role
	Permission  trellis.Permission `yaml:"permission"` // "": the role's own. It may only be narrower than that
	Body        []byte             `yaml:"-"`          // instructions, nil if the file has none
}

// roleKeys are the keys of a role file; foreignKeys are keys that other programs write into such files.
var (
	roleKeys    = []string{"description", "agent", "model", "permission"}
	foreignKeys = strings.Fields(`name title version id tools color mode provider labels skills hooks memory effort background isolation
		mcpServers maxTurns temperature top_p steps hidden disable prompt system_prompt systemPrompt capabilities role channel`)
)

// roleFront is the front matter of a role file.
type roleFront struct {
	Role `yaml:",inline"`
	Rest map[string]yaml.Node `yaml:",inline"`
}

// ParseRole reads the file called name of a role. An unknown key is a problem, since it may be a misspelled "permission", and
// so is front matter that would not be read, or an agent that is not in agents, unless agents is nil. A role with a problem
// must not be used.
func ParseRole(name string, role trellis.Role, data []byte, agents []string) (Role, *trellis.Problem) {
	if p := criteria.Conflict(name, data); p != nil {
		return Role{}, p
	}
	var front roleFront
	body, lines, problem := decodeFrontMatter(name, data, roleKeys, &front)
	if problem != nil {
		return Role{}, problem
	}
	if key, message, hint := front.invalidKey(role, agents, lines); key != "" {
		return Role{}, &trellis.Problem{File: name, Line: max(lines[key], 1), Message: message, Hint: hint}
	}
	r := front.Role
	if r.Model == "inherit" { // Claude Code's way to say that it has no model of its own
		r.Model = ""
	}
	if len(bytes.TrimSpace(body)) > 0 {
		r.Body = body
	}
	return r, nil
}

// invalidKey returns the first invalid key, why it is invalid, and what may be meant.
func (f roleFront) invalidKey(role trellis.Role, agents []string, lines map[string]int) (key, message, hint string) {
	for k := range f.Rest {
		if !slices.Contains(foreignKeys, k) && (key == "" || lines[k] < lines[key]) {
			key = k
		}
	}
	_, permits := lines["permission"]
	rank := slices.Index(trellis.Permissions, f.Permission)
	switch {
	case key != "":
		return key, fmt.Sprintf("unknown key %q (known: %s)", key, strings.Join(roleKeys, ", ")), trellis.NearestHint(key, roleKeys)
	case permits && f.Permission == "":
		return "permission", "permission is empty (none, read, edit)", "name one, or remove the line: the role has " + string(role.Permission())
	case f.Permission != "" && rank < 0:
		return "permission", fmt.Sprintf("unknown permission %q (none, read, edit)", f.Permission), trellis.NearestHint(string(f.Permission), trellis.Strings(trellis.Permissions))
	case rank > slices.Index(trellis.Permissions, role.Permission()):
		return "permission", fmt.Sprintf("permission %s is more than the role %s has (%s): a role file can only narrow it", f.Permission, role, role.Permission()), ""
	case f.Agent != "" && agents != nil && !slices.Contains(agents, f.Agent):
		return "agent", fmt.Sprintf("there is no agent %q (one of %s)", f.Agent, strings.Join(agents, ", ")), trellis.NearestHint(f.Agent, agents)
	}
	return "", "", ""
}
