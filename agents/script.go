package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// script is the script of the rehearsal agent, which the package comment describes.
type script struct {
	Roles map[trellis.Role][]scriptCall `yaml:"roles"`
}

// scriptCall is one entry of a role: what happens at one call.
type scriptCall struct {
	When   string            `yaml:"when"`
	Sleep  time.Duration     `yaml:"sleep"`
	Files  map[string]string `yaml:"files"`
	Run    []string          `yaml:"run"`
	Answer any               `yaml:"answer"`
	Exit   int               `yaml:"exit"`
	Fail   *scriptFailure    `yaml:"fail"`
}

type scriptFailure struct {
	Code     trellis.Code `yaml:"code"`
	Detail   string       `yaml:"detail"`
	ResumeAt time.Time    `yaml:"resume_at"`
}

func readScript(path string) (*script, error) {
	data, err := durable.Read(path, durable.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &trellis.Problem{File: path, Message: "the rehearsal agent plays this file, and it is not there",
			Hint: "write it: docs/reference/agents.md shows one below Rehearsal; or trellis config set agents.default AGENT"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the script of the rehearsal: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	var s script
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		line, message := text.YAMLError(err)
		return nil, &trellis.Problem{File: path, Line: line, Message: message, Hint: "docs/reference/agents.md shows such a file below Rehearsal"}
	}
	return &s, nil
}

// matching returns the calls of a role that apply to a prompt: those whose `when` the prompt contains, or if there are none, those
// without `when`.
func (s *script) matching(role trellis.Role, prompt string) []scriptCall {
	var named, plain []scriptCall
	for _, c := range s.Roles[role] {
		switch {
		case c.When == "":
			plain = append(plain, c)
		case strings.Contains(prompt, c.When):
			named = append(named, c)
		}
	}
	if named != nil {
		return named
	}
	return plain
}

func (c *scriptCall) hasActions() bool { return len(c.Files) > 0 || len(c.Run) > 0 }

// answer returns the answer as text, and as JSON too unless the script has a string.
func (c *scriptCall) answer() (string, json.RawMessage, error) {
	if c.Answer == nil {
		return "", nil, nil
	}
	if text, ok := c.Answer.(string); ok {
		return text, nil, nil
	}
	answer, err := json.Marshal(c.Answer)
	if err != nil {
		return "", nil, fmt.Errorf("an answer has no JSON form: %w", err)
	}
	return string(answer), answer, nil
}

func jsonString(s string) []byte {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return b
}
