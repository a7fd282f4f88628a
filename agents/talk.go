package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// conversation is the exchange with a model, stored in a file so that a later call can resume it. It holds only complete rounds: no
// prompt without a reply, no tool call without its result.
type conversation struct {
	Version  int       `json:"version"`
	Messages []message `json:"messages"`

	id   string // session id: the folder, relative to the task's run/ if it is below that
	path string
}

// message is one step of a conversation.
type message struct {
	Role    string       `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []toolCall   `json:"calls,omitempty"`   // tool calls of the model
	Results []toolResult `json:"results,omitempty"` // results of those calls
}

// Roles of messages.
const (
	roleUser  = "user"
	roleModel = "assistant"
	roleTools = "tools"
)

type toolCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"` // a JSON object
}

type toolResult struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

const (
	conversationVersion = 1
	conversationFile    = "conversation.json"
)

// openConversation returns the conversation that a request resumes, or a new one.
func openConversation(r Request) (*conversation, error) {
	t := &conversation{Version: conversationVersion, id: r.Session}
	runs := filepath.Join(lookup(r.Env, "TRELLIS_TASK_DIR"), "run")
	if r.Session != "" {
		dir := filepath.FromSlash(r.Session)
		if filepath.IsAbs(runs) && filepath.IsLocal(dir) {
			dir = filepath.Join(runs, dir)
		}
		t.path = filepath.Join(dir, conversationFile)
		return t, t.load()
	}
	t.id, t.path = r.RunDir, filepath.Join(r.RunDir, conversationFile)
	if rel, err := filepath.Rel(runs, r.RunDir); err == nil && filepath.IsLocal(rel) {
		t.id = filepath.ToSlash(rel)
	}
	return t, t.save(func(s string) string { return s })
}

func (t *conversation) load() error {
	data, err := durable.Read(t.path, durable.MaxJournal)
	if errors.Is(err, fs.ErrNotExist) || !filepath.IsAbs(t.path) {
		return fail(trellis.AgentProtocol, "there is no conversation %s to continue", t.id)
	}
	if err == nil {
		err = json.Unmarshal(data, t)
	}
	if err == nil && t.Version > conversationVersion {
		err = errors.New("it was written by a newer trellis")
	}
	if err != nil {
		return fmt.Errorf("reading the conversation %s: %w", t.path, err)
	}
	return nil
}

func (t *conversation) save(redact func(string) string) error {
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("keeping the conversation: %w", err)
	}
	return (&durable.Disk{}).WriteFile(t.path, []byte(redact(string(data))+"\n"), 0o600)
}
