package agents

import "encoding/json"

// The parts of the messages of the Agent Client Protocol that are sent and read. As with every agent, unknown fields are ignored:
// programs send more than the protocol has, and the protocol grows.

const acpVersion = 1

// acpInitialize announces no client capabilities: the program accesses files and runs commands by itself.
type acpInitialize struct {
	Version int `json:"protocolVersion"`
	Can     struct {
		FS struct {
			Read  bool `json:"readTextFile"`
			Write bool `json:"writeTextFile"`
		} `json:"fs"`
		Terminal bool `json:"terminal"`
	} `json:"clientCapabilities"`
}

type acpInitialized struct {
	Version int         `json:"protocolVersion"`
	Auth    []acpMethod `json:"authMethods"`
}

// acpMethod is a sign-in method.
type acpMethod struct {
	ID   string
	Name string
	Type string
	Vars []struct {
		Name     string
		Optional bool
	}
}

type acpAuthenticate struct {
	Method string `json:"methodId"`
}

type acpNewSession struct {
	Dir     string     `json:"cwd"`
	Servers []struct{} `json:"mcpServers"`
}

type acpSession struct {
	ID      string            `json:"sessionId"`
	Options []acpConfigOption `json:"configOptions"`
	Models  *struct {
		Current string `json:"currentModelId"`
	}
}

type acpConfigOption struct {
	ID       string
	Category string
	Current  any `json:"currentValue"`
}

type acpSetModel struct {
	Session string `json:"sessionId"`
	Model   string `json:"modelId"`
}

type acpSetOption struct {
	Session string `json:"sessionId"`
	Option  string `json:"configId"`
	Value   string `json:"value"`
}

type acpPrompt struct {
	Session string    `json:"sessionId"`
	Prompt  []acpText `json:"prompt"`
}

type acpText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type acpCancel struct {
	Session string `json:"sessionId"`
}

// acpAnswer is the answer to a prompt. Usage is a draft of the protocol; some programs report it in their own field instead.
type acpAnswer struct {
	Stop  string `json:"stopReason"`
	Usage struct {
		Total   int64 `json:"totalTokens"`
		Input   int64 `json:"inputTokens"`
		Output  int64 `json:"outputTokens"`
		Thought int64 `json:"thoughtTokens"`
		Read    int64 `json:"cachedReadTokens"`
		Written int64 `json:"cachedWriteTokens"`
	}
	Meta struct {
		Quota struct {
			Tokens acpTokens `json:"token_count"`
			Models []struct {
				Model  string
				Tokens acpTokens `json:"token_count"`
			} `json:"model_usage"`
		}
	} `json:"_meta"`
}

type acpTokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// acpNotice is a session/update.
type acpNotice struct {
	Update struct {
		Kind    string          `json:"sessionUpdate"`
		Content json.RawMessage // one block for a message, a list for a tool
		Entries []struct{ Content, Status string }
		Cost    *struct {
			Amount   dollars
			Currency string
		}
		acpToolCall
	}
}

// acpToolCall is a tool call, or an update of one.
type acpToolCall struct {
	ID        string `json:"toolCallId"`
	Title     string
	ToolKind  string `json:"kind"`
	Status    string
	Input     json.RawMessage `json:"rawInput"`
	Locations []struct{ Path string }
}

// acpContent is a piece of a tool's output.
type acpContent struct {
	Type    string
	Path    string // file of a diff
	Content acpText
}

type acpPermission struct {
	Call struct {
		acpToolCall
		Content json.RawMessage
	} `json:"toolCall"`
	Options []acpOption
}

type acpOption struct {
	ID   string `json:"optionId"`
	Kind string
}

type acpOutcome struct {
	Outcome struct {
		Outcome string `json:"outcome"`
		Option  string `json:"optionId,omitempty"`
	} `json:"outcome"`
}
