package modelserver

import (
	"cmp"
	"encoding/json"
	"strings"
)

// generate is the Gemini API. The URL of a request contains the model and says whether the answer is streamed.
type generate struct {
	model   string
	streams bool
}

// path returns the path of all methods; {call} is MODEL:METHOD.
func (generate) path() string { return "/v1beta/models/{call}" }

// geminiContent is one entry of a conversation, or the system instruction before it.
type geminiContent struct {
	Role  string
	Parts []struct {
		Text   string
		Result *struct {
			Response struct{ Output, Error string }
		} `json:"functionResponse"`
	}
}

func (c geminiContent) text() string {
	var texts []string
	for _, p := range c.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func (p generate) parse(body []byte) (Request, error) {
	var in struct {
		System   geminiContent `json:"systemInstruction"`
		Contents []geminiContent
		Tools    []struct {
			Functions []struct{ Name string } `json:"functionDeclarations"`
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{Wire: Gemini, Model: p.model, Stream: p.streams, System: in.System.text() + "\n"}
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			r.Tools = append(r.Tools, f.Name)
		}
	}
	for _, c := range in.Contents {
		r.addGeminiContent(c)
	}
	r.Dir = workingDir(r.System)
	return r, nil
}

// addGeminiContent adds one entry of the conversation to r.
func (r *Request) addGeminiContent(c geminiContent) {
	if c.Role == "model" {
		r.Turns++
		return
	}
	var prompt []string
	answers := false
	for _, p := range c.Parts {
		switch {
		case p.Result != nil:
			r.ToolResults = append(r.ToolResults, p.Result.Response.Output+p.Result.Response.Error)
			prompt, answers = nil, true // the program itself added the text next to a result
		case hasAnyPrefix(p.Text, "<session_context>"): // added by the program itself
			r.System += p.Text + "\n"
		case p.Text != "" && !answers:
			prompt = append(prompt, p.Text)
		}
	}
	if prompt != nil {
		r.Prompt, r.Turns, r.ToolResults = strings.Join(prompt, "\n"), 0, nil
	}
}

func (generate) parts(r Request, t Turn) []any {
	var parts []any
	if t.Text != "" {
		parts = append(parts, object{"text": t.Text})
	}
	for _, c := range t.calls(r) {
		arguments := c.Input
		if arguments == nil {
			arguments = map[string]any{}
		}
		parts = append(parts, object{"functionCall": object{"id": c.id, "name": c.Tool, "args": arguments}})
	}
	return parts
}

func (p generate) body(r Request, t Turn) any {
	return geminiAnswer(r, p.parts(r, t), geminiFinish(t), t.usage())
}

func (p generate) events(r Request, t Turn) []event {
	var events []event
	for _, piece := range halves(t.Text) {
		events = append(events, event{data: geminiAnswer(r, []any{object{"text": piece}}, "", Usage{})})
	}
	t.Text = ""
	return append(events, event{data: p.body(r, t)})
}

func geminiAnswer(r Request, parts []any, finish string, u Usage) object {
	if parts == nil {
		parts = []any{}
	}
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	answer := object{"candidates": []any{candidate}, "modelVersion": r.Model, "responseId": r.id}
	if finish != "" {
		candidate["finishReason"] = finish
		answer["usageMetadata"] = object{"promptTokenCount": u.Input + u.Cached, "cachedContentTokenCount": u.Cached,
			"candidatesTokenCount": u.Output, "totalTokenCount": u.Input + u.Cached + u.Output}
	}
	return answer
}

func geminiFinish(t Turn) string { return t.stopReason("MAX_TOKENS", "STOP", "STOP") }

func (generate) errorBody(f Fail) any {
	code := cmp.Or(f.Code, map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}[f.Status])
	return object{"error": object{"code": f.Status, "message": f.message(), "status": code}}
}
