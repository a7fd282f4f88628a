package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type object map[string]any

func (e event) send(w io.Writer) error {
	data, ok := e.data.(string)
	if !ok {
		b, err := json.Marshal(e.data)
		if err != nil {
			return err
		}
		data = string(b)
	}
	if e.name != "" {
		data = "event: " + e.name + "\ndata: " + data
	} else {
		data = "data: " + data
	}
	_, err := io.WriteString(w, data+"\n\n")
	return err
}

func sendFailure(p protocol, w http.ResponseWriter, f Fail) {
	if f.RetryAfter > 0 {
		for name, value := range limitHeaders(f.RetryAfter) {
			w.Header().Set(name, value)
		}
	}
	writeJSON(w, f.Status, p.errorBody(f))
}

// limitHeaders returns the headers that tell a client when to retry: the usual one, and those of the two providers for accounts.
func limitHeaders(after time.Duration) map[string]string {
	seconds := int64((after + time.Second - 1) / time.Second)
	reset := strconv.FormatInt(time.Now().Unix()+seconds, 10)
	return map[string]string{
		"Retry-After":                                      strconv.FormatInt(seconds, 10),
		"anthropic-ratelimit-unified-status":               "rejected",
		"anthropic-ratelimit-unified-representative-claim": "five_hour",
		"anthropic-ratelimit-unified-reset":                reset,
		"x-codex-primary-used-percent":                     "100",
		"x-codex-primary-window-minutes":                   "300",
		"x-codex-primary-reset-at":                         reset,
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client is gone
}

// halves splits text in two, so that clients have something to assemble.
func halves(text string) []string {
	r := []rune(text)
	if len(r) < 2 {
		return []string{text}
	}
	return []string{string(r[:len(r)/2]), string(r[len(r)/2:])}
}

// content is text as the protocols encode it: a string, or a list of parts, some of which have text.
type content []part

type part struct {
	Type    string  `json:"type"`
	Text    string  `json:"text"`
	Content content `json:"content"` // tool_result
	ToolUse string  `json:"tool_use_id"`
	IsError bool    `json:"is_error"`
	ID      string  `json:"id"`   // tool_use
	Name    string  `json:"name"` // tool_use
}

func (c *content) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) == 0 || string(b) == "null":
		return nil
	case b[0] == '"':
		var s string
		err := json.Unmarshal(b, &s)
		*c = content{{Type: "text", Text: s}}
		return err
	case b[0] != '[':
		return fmt.Errorf("content is neither text nor a list")
	}
	var parts []part
	err := json.Unmarshal(b, &parts)
	*c = parts
	return err
}

func (c content) text() string {
	var texts []string
	for _, p := range c {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// workingDir returns the directory that a client told the model, found by the text before it, or "".
func workingDir(text string) string {
	for _, before := range []string{"<cwd>", "**Workspace Directories:**\n  - ", "Primary working directory: ", "Working directory: "} {
		if _, after, ok := strings.Cut(text, before); ok {
			return strings.TrimSpace(after[:strings.IndexAny(after+"\n", "<\n")])
		}
	}
	return ""
}
