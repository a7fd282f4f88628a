package agentstest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/agents/agentstest"
)

// acpPart is the variable that turns this test program into an agent that speaks the Agent Client Protocol, and names the part that
// the agent plays. acpSeen names the folder in which the agent records what it was told.
const acpPart, acpSeen = "ACP_PART", "ACP_SEEN"

// acpAgent is the agent's side of the protocol.
type acpAgent struct {
	part string
	in   *bufio.Reader
	last string // the answer to its last request
}

// message is any message of the protocol.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      any             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// playACP runs the agent from its beginning to its end.
func playACP(part string) {
	a := &acpAgent{part: part, in: bufio.NewReader(os.Stdin)}
	switch agentstest.Behaviour(part) {
	case agentstest.Mute:
		return
	case agentstest.Exits:
		fmt.Fprintln(os.Stderr, "no luck with "+os.Getenv("SUITE_API_KEY"))
		os.Exit(3)
	case agentstest.Deaf:
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	}
	for {
		m, err := a.read()
		if err != nil {
			return
		}
		a.take(m)
	}
}

func (a *acpAgent) read() (m message, err error) {
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(line, &m)
}

// see records what the agent was told.
func (a *acpAgent) see(name, what string) {
	if err := os.WriteFile(filepath.Join(os.Getenv(acpSeen), name), []byte(what), 0o600); err != nil {
		panic(err)
	}
}

func (a *acpAgent) answer(to message, result string) {
	fmt.Printf(`{"jsonrpc":"2.0","id":%v,"result":%s}`+"\n", to.ID, result)
}

func (a *acpAgent) refuse(to message, code int, words string) {
	fmt.Printf(`{"jsonrpc":"2.0","id":%v,"error":{"code":%d,"message":%q}}`+"\n", to.ID, code, words)
}

func (a *acpAgent) update(update string) {
	fmt.Printf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":%s}}`+"\n", update)
}

// say sends words in two pieces.
func (a *acpAgent) say(words string) {
	half := len(words) / 2
	for !strings.HasPrefix(words[half:], " ") && half > 0 {
		half--
	}
	for _, piece := range []string{words[:half], words[half:]} {
		said, _ := json.Marshal(piece)
		a.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":` + string(said) + `}}`)
	}
}

// ask sends a request to the client, and waits for the answer.
func (a *acpAgent) ask(method, params string) message {
	fmt.Printf(`{"jsonrpc":"2.0","id":"mine","method":%q,"params":%s}`+"\n", method, params)
	m, err := a.read()
	if err != nil {
		panic(err)
	}
	return m
}

func (a *acpAgent) take(m message) {
	switch m.Method {
	case "initialize":
		a.see("initialize", string(m.Params))
		version := "1"
		if a.part == "version" {
			version = "2"
		}
		a.answer(m, `{"protocolVersion":`+version+`,"agentCapabilities":{"loadSession":true},"authMethods":[{"id":"login","name":"Log in"},{"id":"mock-api-key","name":"Key"}]}`)
	case "authenticate":
		a.see("authenticate", string(m.Params))
		a.last = "signed in"
		a.answer(m, "{}")
	case "session/new":
		a.see("session", string(m.Params))
		switch {
		case a.part == "auth" && a.last != "signed in":
			a.refuse(m, -32000, "Authentication required")
		case a.part == "option":
			a.answer(m, `{"sessionId":"s-1","configOptions":[{"id":"speed","category":"other","type":"select","currentValue":"x"},{"id":"which","category":"model","type":"select","currentValue":"m-0"}]}`)
		case a.part == "no-model":
			a.answer(m, `{"sessionId":"s-1"}`)
		default:
			a.answer(m, `{"sessionId":"s-1","models":{"currentModelId":"m-0","availableModels":[]}}`)
		}
	case "session/set_model", "session/set_config_option":
		a.see("model", m.Method+" "+string(m.Params))
		a.answer(m, "{}")
	case "session/cancel":
		a.see("cancel", string(m.Params))
	case "session/prompt":
		a.prompt(m)
	}
}

// end ends the turn.
func (a *acpAgent) end(m message) {
	a.answer(m, `{"stopReason":"end_turn","usage":{"totalTokens":1023,"inputTokens":1000,"outputTokens":20,"cachedReadTokens":3}}`)
}

func (a *acpAgent) prompt(m message) {
	var p struct{ Prompt []struct{ Text string } }
	_ = json.Unmarshal(m.Params, &p)
	a.see("prompt", p.Prompt[0].Text)
	kind, rest, _ := strings.Cut(a.part, " ")
	switch agentstest.Behaviour(kind) {
	case "permission":
		a.permission(m, rest)
	case "stop":
		a.answer(m, `{"stopReason":"`+rest+`"}`)
	case "answer":
		a.say(agentstest.Text)
		a.answer(m, rest)
	case "error":
		code, words, _ := strings.Cut(rest, " ")
		var n int
		fmt.Sscan(code, &n)
		a.refuse(m, n, words)
	case "odd":
		a.odd(m)
	case "leaves":
		a.leaves(m)
	case "late":
		a.late(m)
	default:
		a.behave(agentstest.Behaviour(kind), m)
	}
}

// behave plays a behaviour of the suite.
func (a *acpAgent) behave(b agentstest.Behaviour, m message) {
	switch b {
	case agentstest.AnswersJSON:
		a.say(agentstest.JSON)
	case agentstest.NotUTF8:
		fmt.Print(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + "\xff" + agentstest.Text + "\xc3\x28" + `"}}}}` + "\n")
	case agentstest.Empty:
	case agentstest.Refused:
		got := a.ask("session/request_permission", `{"sessionId":"s-1","toolCall":{"toolCallId":"1","title":"write it","kind":"edit"},"options":[{"optionId":"a","kind":"allow_once"},{"optionId":"b","kind":"reject_once"}]}`)
		if !strings.Contains(string(got.Result), `"b"`) {
			_ = os.WriteFile("refused.txt", []byte("no"), 0o600)
		}
		a.say(agentstest.Text)
	case agentstest.Garbage:
		fmt.Print("\x00\xff{\"type\": nothing\n[1]\n\"x\"\nnull\n{}\n{\"jsonrpc\":\"2.0\"}\n", strings.Repeat("z", 1<<20))
		os.Exit(0)
	case agentstest.Silent:
		time.Sleep(agentstest.Hang)
	case agentstest.Hangs:
		a.say(agentstest.Text)
		a.end(m)
		time.Sleep(agentstest.Hang)
	case agentstest.Works:
		shell("sh work.sh")
	case agentstest.Crashes:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case agentstest.Unauthorized:
		a.refuse(m, 401, "bad key")
		return
	case agentstest.Down:
		a.refuse(m, 503, "boom")
		return
	case agentstest.Exhausted:
		a.refuse(m, 429, "You exceeded your current quota")
		return
	case agentstest.Invalid:
		a.refuse(m, 400, "bad schema")
		return
	case agentstest.Overflow:
		a.refuse(m, 400, "prompt is too long")
		return
	default:
		a.exceed(b)
		a.say("I begin.")
		a.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"make","kind":"execute","status":"in_progress","rawInput":{"command":"make ` + os.Getenv("SUITE_API_KEY") + `"}}`)
		a.update(`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"made"}}]}`)
		a.say(agentstest.Text)
	}
	a.end(m)
}

// exceed plays what the agent does before it answers, if it ever does.
func (a *acpAgent) exceed(b agentstest.Behaviour) {
	switch b {
	case agentstest.Babbles:
		for {
			fmt.Print("\xff{\"type\": garbage")
			time.Sleep(100 * time.Millisecond)
		}
	case agentstest.Plods:
		for range 10 {
			a.update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`)
			time.Sleep(300 * time.Millisecond)
		}
	case agentstest.Deaf:
		time.Sleep(agentstest.Hang)
	case agentstest.Escapes:
		shell("sh escape.sh")
	case agentstest.Asks:
		shell("read word </dev/tty 2>/dev/null; true")
	case agentstest.Floods:
		flood(os.Stdout)
	case agentstest.Complains:
		flood(os.Stderr)
	case agentstest.LongLine:
		fmt.Println(strings.Repeat("x", 20_000_000))
	case agentstest.ManyEvents:
		for range manyEvents() {
			a.update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`)
		}
	}
}

func flood(to io.Writer) {
	for {
		if _, err := fmt.Fprintln(to, strings.Repeat("\xff", 1000)); err != nil {
			return
		}
	}
}

func shell(command string) {
	_ = exec.Command("sh", "-c", command).Run() // runs in the folder of the session, where the agent was started
}

// permission asks whether a tool may be used, and says the answer. what is "KIND PATH OPTION...", where KIND may be followed by +
// and the JSON of an earlier update of the call. Each OPTION is the kind of an option, whose id is "id of " with that kind.
func (a *acpAgent) permission(m message, what string) {
	words := strings.Fields(what)
	var options []string
	for _, kind := range words[2:] {
		options = append(options, fmt.Sprintf(`{"optionId":"id of %s","name":"x","kind":%q}`, kind, kind))
	}
	kind, before, _ := strings.Cut(words[0], "+")
	a.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"a tool","kind":"` + kind + `","status":"pending"}`)
	if before != "" {
		a.update(`{"sessionUpdate":"tool_call_update","toolCallId":"1",` + before + `}`)
	}
	got := a.ask("session/request_permission", fmt.Sprintf(`{"sessionId":"s-1","toolCall":{"toolCallId":"1","locations":[{"path":%q}]},"options":[%s]}`, words[1], strings.Join(options, ",")))
	a.see("permission", string(got.Result))
	a.say(string(got.Result))
	if strings.Contains(string(got.Result), `"cancelled"`) {
		next, _ := a.read()
		a.see("cancel", next.Method)
		a.answer(m, `{"stopReason":"cancelled"}`)
		return
	}
	a.end(m)
}

// odd sends messages that a client of this version does not know, or that nobody would send.
func (a *acpAgent) odd(m message) {
	fmt.Println(`not json`)
	fmt.Println(`{"jsonrpc":"1.0","id":6,"result":{"stopReason":"end_turn"}}`)
	fmt.Println(`{"jsonrpc":"2.0","id":6000,"result":{"stopReason":"refusal"}}`)
	fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`) // the requests with these ids were answered before
	fmt.Println(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-2"}}`)
	fmt.Println(`{"jsonrpc":"2.0","method":"session/update"}`)
	fmt.Println(`{"jsonrpc":"2.0","method":"session/update","params":[1]}`)
	fmt.Println(`{"jsonrpc":"2.0","method":"_vendor/news","params":{}}`)
	a.update(`{"sessionUpdate":"rumour","content":7}`)
	a.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"xx"}}`)
	a.update(`{"sessionUpdate":"tool_call","toolCallId":7,"kind":[],"content":{}}`)
	a.update(`{"sessionUpdate":"plan","entries":[{"content":"a","status":"completed"},{"content":"b","status":"pending"}]}`)
	a.update(`{"sessionUpdate":"usage_update","used":5000,"size":100000}`)
	for _, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create"} {
		if got := a.ask(method, `{"sessionId":"s-1","path":"/etc/passwd"}`); !strings.Contains(string(got.Error), "-32601") {
			a.say("it was given " + method)
		}
	}
	a.say(agentstest.Text)
	a.end(m)
}

// leaves plays an agent that executed itself again: its first process exits before the second one, which ignores signals.
func (a *acpAgent) leaves(m message) {
	again := exec.Command("sh", "-c", "trap '' INT TERM HUP; while :; do sleep 0.1; done")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := again.Start(); err != nil {
		panic(err)
	}
	a.say(agentstest.Text)
	a.end(m)
	os.Exit(7)
}

// late works until it is cancelled, and then reports its usage.
func (a *acpAgent) late(m message) {
	a.say("I begin.")
	a.update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"make","kind":"execute"}`)
	next, err := a.read()
	if err == nil && next.Method == "session/cancel" {
		a.answer(m, `{"stopReason":"cancelled","usage":{"totalTokens":12,"inputTokens":7,"outputTokens":5}}`)
	}
}
