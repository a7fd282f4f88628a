package agentcall

import (
	"bytes"
	"encoding/json"
)

// scanBudget is the number of bytes that are inspected at most, in case a text is made to be slow to scan.
const scanBudget = 64 << 20

// objects returns the top-level JSON objects of a text, in order. Fences and prose, even with braces, may surround them. What
// looks like JSON but is invalid or cut off hides the objects inside it, so that a part is never taken for the whole.
func objects(text []byte) (found []json.RawMessage) {
	budget := scanBudget
	for i := 0; i < len(text) && budget > 0; i++ {
		if text[i] != '{' {
			continue
		}
		end := objectEnd(text[i:], &budget)
		switch {
		case end > 0 && json.Valid(text[i:i+end]):
			found = append(found, text[i:i+end])
			i += end - 1
		case !bytes.HasPrefix(bytes.TrimLeft(text[i+1:], " \t\r\n"), []byte(`"`)): // prose, since no key follows
		case end > 0:
			i += end - 1
		default:
			return found
		}
	}
	return found
}

// objectEnd returns the length of the group in braces that text begins with, or 0 if the group is not closed. Braces in strings
// don't count.
func objectEnd(text []byte, budget *int) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		if *budget--; *budget <= 0 {
			return 0
		}
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// extract returns the last object in the text that satisfies check, or that has a single key whose value does. Otherwise it
// returns the problems of the last object.
func extract(text []byte, check func(json.RawMessage) []string) (json.RawMessage, []string) {
	all := objects(text)
	if len(all) == 0 {
		return nil, []string{"there is no complete JSON object in the answer"}
	}
	var problems []string
	for i := len(all) - 1; i >= 0; i-- {
		wrong := check(all[i])
		if len(wrong) == 0 {
			return all[i], nil
		}
		if inner := unwrap(all[i]); inner != nil && len(check(inner)) == 0 {
			return inner, nil
		}
		if problems == nil {
			problems = wrong
		}
	}
	return nil, problems
}

// unwrap returns the object that is the value of obj's only key, or nil.
func unwrap(obj json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(obj, &m) != nil || len(m) != 1 {
		return nil
	}
	for _, v := range m {
		if v = bytes.TrimSpace(v); len(v) > 0 && v[0] == '{' {
			return v
		}
	}
	return nil
}
