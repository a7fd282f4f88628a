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

// Wire is a protocol.
type Wire string

const (
	Chat      Wire = "chat"      // OpenAI chat completions, what opencode speaks here
	Responses Wire = "responses" // OpenAI responses, what codex speaks
	Messages  Wire = "messages"  // Anthropic messages, what claude speaks
	Gemini    Wire = "gemini"    // the Gemini API, what gemini speaks
)

// Request is what a client asks of the model.
type Request struct {
	Wire        Wire
	Model       string
	System      string   // all text that is neither the user's nor the model's
	Prompt      string   // the last thing the user said; what the client itself puts around it is left out
	Turns       int      // how many turns the model has taken since the prompt
	Tools       []string // names of the tools on offer
	ToolResults []string // what the tools said since the prompt
	Dir         string   // the working directory the client tells the model, "" when it does not
	Stream      bool
	Header      http.Header
	Raw         []byte // the whole body

	answered bool   // the last tool call handed in the structured answer, and was taken
	id       string // no other request of this server has it; clients merge what has the same id
}

// Turn is what the model does: say something, call tools, or misbehave.
type Turn struct {
	Text    string // what it says; a JSON object is handed in as the structured answer where a client asks for that by a tool
	Calls   []Call
	Usage   Usage         // zero is 100 in, 10 out
	Length  bool          // the answer ends because it got too long
	Fail    *Fail         // an error instead of an answer
	Delay   time.Duration // before anything is sent
	Hang    bool          // half of the answer, then nothing until the client goes
	Cut     bool          // half of the answer, then the connection breaks
	Stay    bool          // the whole answer, and the connection stays open
	Garbage bool          // something that is no answer of any protocol
	Half    func()        // called when half of a streamed answer was sent; nil: nothing is
	Sent    func()        // called when all of it was
}

// Usage is what a turn cost. Input does not count Cached. Of it so much was Written to the cache, which the messages
// protocol alone tells.
type Usage struct{ Input, Output, Cached, Written int }

// Fail is an error of the model's provider.
type Fail struct {
	Status     int
	Code       string // the provider's word for it; a usual one for the status when empty
	Message    string
	RetryAfter time.Duration // sent as Retry-After when not zero
}

// Call is a tool call. [Shell] and [Write] make calls that fit the client; others name the client's tool, with its namespace and a
// dot before it where the responses protocol has one.
type Call struct {
	Tool  string
	Input map[string]any
}

const (
	shellTool = "\x00shell"
	writeTool = "\x00write"
)

// Shell is a call of the client's shell tool, offered or not.
func Shell(command string) Call { return Call{shellTool, map[string]any{"command": command}} }

// Write is a call that writes a file, with the client's shell where it has no tool for that.
// A relative path is below the client's working directory.
func Write(file, content string) Call {
	return Call{writeTool, map[string]any{"path": file, "content": content}}
}

// Play is a script of the given turns, one after the other; the last one is repeated.
func Play(turns ...Turn) Script {
	return func(r Request) Turn { return turns[min(r.Turns, len(turns)-1)] }
}

// native is the call in the words of the client behind the wire.
func (c Call) native(r Request) Call {
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
		panic(err) // a script's own value
	}
	if c.Input == nil {
		return "{}"
	}
	return string(b)
}

// ended is why a turn ended, in the words of a protocol.
func (t Turn) ended(length, calls, well string) string {
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

// calls are the turn's calls as the client knows them, with ids that differ from turn to turn.
func (t Turn) calls(r Request) []identified {
	var list []identified
	for i, c := range t.Calls {
		list = append(list, identified{c.native(r), fmt.Sprintf("call_%s_%d", r.id, i)})
	}
	return list
}

type identified struct {
	Call
	id string
}

func (f Fail) message() string {
	return cmp.Or(f.Message, strings.ToLower(http.StatusText(f.Status)))
}
