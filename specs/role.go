package specs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"go.yaml.in/yaml/v3"
)

// Role is what .trellis/agents/<role>.md says of a role.
type Role struct {
	Description string
	Agent       string             // "" says nothing
	Model       string             // of Agent, or of whatever agent plays the role
	Permission  trellis.Permission // "" is the role's own. It may be narrower than that, not wider
	Body        []byte             // instructions, nil when the file has none
}

// known are the keys of a role file; foreign ones are what other programs write into such files.
var (
	known   = []string{"description", "agent", "model", "permission"}
	foreign = strings.Fields(`name title version id tools color mode provider labels skills hooks memory effort background isolation
		mcpServers maxTurns temperature top_p steps hidden disable prompt system_prompt systemPrompt capabilities role channel`)
)

// ParseRole reads a role file called name. A key that nobody knows is a problem, since it may be
// "permission" with a letter wrong; the role must not be used, then.
func ParseRole(name string, data []byte) (Role, *trellis.Problem) {
	var front struct {
		Description string               `yaml:"description"`
		Agent       string               `yaml:"agent"`
		Model       string               `yaml:"model"`
		Permission  trellis.Permission   `yaml:"permission"`
		Rest        map[string]yaml.Node `yaml:",inline"`
	}
	body, problem := frontMatter(name, data, &front)
	if problem != nil {
		return Role{}, problem
	}
	line, key := 0, ""
	for k, v := range front.Rest {
		if !slices.Contains(foreign, k) && (line == 0 || v.Line < line) {
			line, key = v.Line, k
		}
	}
	if line > 0 {
		return Role{}, &trellis.Problem{File: name, Line: line + 1, Message: fmt.Sprintf("unknown key %q (known: %s)", key, strings.Join(known, ", "))}
	}
	if p := front.Permission; p != "" && !slices.Contains(trellis.Permissions, p) {
		return Role{}, &trellis.Problem{File: name, Line: 1, Message: fmt.Sprintf("unknown permission %q (none, read, edit)", p)}
	}
	r := Role{Description: front.Description, Agent: front.Agent, Model: front.Model, Permission: front.Permission}
	if r.Model == "inherit" { // as Claude Code says that it has no model of its own
		r.Model = ""
	}
	if len(bytes.TrimSpace(body)) > 0 {
		r.Body = body
	}
	return r, nil
}
