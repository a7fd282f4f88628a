package modelserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

// Wire names a protocol.
type Wire string

const (
	Chat      Wire = "chat"      // OpenAI chat completions, used by opencode here
	Responses Wire = "responses" // OpenAI responses, used by codex
	Messages  Wire = "messages"  // Anthropic messages, used by claude
	Gemini    Wire = "gemini"    // the Gemini API, used by gemini
)

// Request is a client's request for a turn of the model.
type Request struct {
	Wire        Wire
	Model       string
	System      string   // all text that is neither from the user nor from the model
	Prompt      string   // the user's last message, without what the client itself adds around it
	Turns       int      // how many turns the model has taken since the prompt
	Tools       []string // names of the tools on offer
	ToolResults []string // results of tools since the prompt
	Dir         string   // the working directory that the client tells the model, "" if it tells none
	Stream      bool
	Header      http.Header
	Raw         []byte // the whole body

	answerAccepted bool   // the last tool call handed in the structured answer, and was accepted
	id             string // unique among the requests of this server, since clients merge responses with the same id
}

// Turn is what the model does: it answers, calls tools or misbehaves.
type Turn struct {
	Text    string // the answer; a JSON object is handed in by a tool call if the client wants structured answers in that way
	Calls   []Call
	Usage   Usage         // the zero value means 100 in, 10 out
	Length  bool          // the answer ends because of its length
	Fail    *Fail         // an error, instead of an answer
	Delay   time.Duration // wait before anything is sent
	Hang    bool          // send half of the answer, then nothing until the client goes
	Cut     bool          // send half of the answer, then break the connection
	Stay    bool          // send the whole answer, and keep the connection open
	Garbage bool          // send something that is not an answer in any protocol
	Half    func()        // called after half of a streamed answer was sent; may be nil
	Sent    func()        // called after all of it was sent; may be nil
}

// Usage is the usage of a turn, in tokens. Input does not include Cached, but it includes Written, the tokens written to the
// cache, which only the messages protocol reports.
type Usage struct{ Input, Output, Cached, Written int }

// Fail is an error of the model's provider.
type Fail struct {
	Status     int
	Code       string // the provider's error code; empty: a usual one for the status
	Message    string
	RetryAfter time.Duration // sent as Retry-After unless zero
}

// Call is a tool call. [Shell] and [Write] make calls that fit the client. Other calls use the name of the client's tool; in the
// responses protocol its namespace and a dot may precede the name.
type Call struct {
	Tool  string
	Input map[string]any
}

const (
	shellTool = "\x00shell"
	writeTool = "\x00write"
)

// Shell returns a call of the client's shell tool, whether or not the client offers it.
func Shell(command string) Call { return Call{shellTool, map[string]any{"command": command}} }

// Write returns a call that writes a file, using the client's shell if it has no tool for that. A relative path is below the
// client's working directory.
func Write(file, content string) Call {
	return Call{writeTool, map[string]any{"path": file, "content": content}}
}

// Play returns a script that plays the given turns in order and repeats the last one.
func Play(turns ...Turn) Script {
	return func(r Request) Turn { return turns[min(r.Turns, len(turns)-1)] }
}

// forClient returns the call with the tool name and arguments of the client.
func (c Call) forClient(r Request) Call {
	switch c.Tool {
	case shellTool:
		return nativeShell(r.Wire, c.Input["command"].(string))
	case writeTool:
		return nativeWrite(r, c.Input["path"].(string), c.Input["content"].(string))
	}
	return c
}

func nativeShell(w Wire, command string) Call {
	switch w {
	case Chat:
		return Call{"bash", map[string]any{"command": command, "description": "runs a command"}}
	case Responses:
		return Call{"exec_command", map[string]any{"cmd": command}}
	case Gemini:
		return Call{"run_shell_command", map[string]any{"command": command, "description": "runs a command"}}
	}
	return Call{"Bash", map[string]any{"command": command, "description": "Run a command"}}
}

func nativeWrite(r Request, file, content string) Call {
	if !path.IsAbs(file) && r.Dir != "" {
		file = path.Join(r.Dir, file)
	}
	switch r.Wire {
	case Chat:
		return Call{"write", map[string]any{"filePath": file, "content": content}}
	case Gemini:
		return Call{"write_file", map[string]any{"file_path": file, "content": content}}
	case Responses:
		return nativeShell(Responses, fmt.Sprintf("mkdir -p %s && printf %%s %s > %s", quote(path.Dir(file)), quote(content), quote(file)))
	}
	return Call{"Write", map[string]any{"file_path": file, "content": content}}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (c Call) arguments() string {
	b, err := json.Marshal(c.Input)
	if err != nil {
		panic(err) // a value that a script made
	}
	if c.Input == nil {
		return "{}"
	}
	return string(b)
}

// stopReason returns the stop reason of a turn, given the protocol's words for the three reasons.
func (t Turn) stopReason(length, calls, well string) string {
	switch {
	case t.Length:
		return length
	case len(t.Calls) > 0:
		return calls
	}
	return well
}

func (t Turn) usage() Usage {
	if t.Usage == (Usage{}) {
		return Usage{Input: 100, Output: 10}
	}
	return t.Usage
}

// calls returns the turn's calls as the client knows them, with ids that are unique per turn.
func (t Turn) calls(r Request) []callWithID {
	var list []callWithID
	for i, c := range t.Calls {
		list = append(list, callWithID{c.forClient(r), fmt.Sprintf("call_%s_%d", r.id, i)})
	}
	return list
}

type callWithID struct {
	Call
	id string
}

func (f Fail) message() string {
	return cmp.Or(f.Message, strings.ToLower(http.StatusText(f.Status)))
}
