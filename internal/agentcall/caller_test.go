package agentcall

import (
	"encoding/json"
	"strings"
	"testing"
)

func hasDecision(obj json.RawMessage) []string {
	var m map[string]any
	if json.Unmarshal(obj, &m) == nil && m["decision"] != nil {
		return nil
	}
	return []string{"/decision: is missing"}
}

func TestExtract(t *testing.T) {
	const want = `{"decision":"accept"}`
	for name, text := range map[string]string{
		"alone":                   want,
		"fence":                   "```json\n" + want + "\n```",
		"prose around":            "Here it is:\n" + want + "\nThat is all.",
		"braces in prose before":  "I use {curly} braces { and more.\n" + want,
		"a think block":           "<think>{\"decision\" maybe}</think>" + want,
		"the last of two":         `{"decision":"reject"} no, rather ` + want,
		"another object after it": want + ` and {"note": 1}`,
		"one wrapper key":         `{"answer":` + want + `}`,
		"BOM and CRLF":            "\ufeff" + want + "\r\n",
		"prose around in braces":  "{see: " + want + "}",
	} {
		got, problems := extract([]byte(text), hasDecision)
		if string(got) != want || problems != nil {
			t.Errorf("%s: got %s, %v", name, got, problems)
		}
	}
}

func TestExtractRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                    "",
		"prose":                      "I can't do that.",
		"cut off":                    `{"decision":"accept", "details": "x`,
		"the inside of one cut off":  `{"outer": [{"decision":"accept"}, `,
		"the inside of a broken one": `{"outer": {"decision":"accept"},}`,
		"two wrapper keys":           `{"a":{"decision":"accept"},"b":1}`,
		"two wrappers":               `{"a":{"b":{"decision":"accept"}}}`,
		"single quotes":              `{'decision':'accept'}`,
		"a list":                     `["decision"]`,
	} {
		if got, problems := extract([]byte(text), hasDecision); got != nil || len(problems) == 0 {
			t.Errorf("%s: got %s, %v", name, got, problems)
		}
	}
}

func TestExtractIsBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("{", 1<<20), strings.Repeat(`{"a":`, 1<<18), strings.Repeat(`{x"`, 1<<18)} {
		extract([]byte(text), hasDecision) // must end
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(`{"decision":"accept"}`)
	f.Add("a { b \"{\" {\"decision\": {}} }")
	f.Fuzz(func(t *testing.T, text string) {
		got, problems := extract([]byte(text), hasDecision)
		if (got == nil) == (problems == nil) {
			t.Fatalf("got %q and %v", got, problems)
		}
		if got != nil && (!json.Valid(got) || !strings.Contains(text, string(got))) {
			t.Fatalf("%q is not part of the text", got)
		}
	})
}
