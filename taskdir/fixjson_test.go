package taskdir_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestMend(t *testing.T) {
	for _, tt := range []struct{ name, before, after string }{
		{"valid", `{"status": "planning"}`, ""},
		{"date", "{\n  \"title\": \"x\",\n  \"completedAt\": 2026-01-16,\n  \"branch\": feature/x\n}\n", "{\n  \"title\": \"x\",\n  \"completedAt\": \"2026-01-16\",\n  \"branch\": \"feature/x\"\n}\n"},
		{"words", `{"id": "x", "title": fix the login page, "worktree_path": /srv/x}`, `{"id": "x", "title": "fix the login page", "worktree_path": "/srv/x"}`},
		{"list of one", `{"subtasks": [write-tests], "id": "x"}`, `{"subtasks": ["write-tests"], "id": "x"}`},
		{"windows lines", "{\r\n  \"id\": \"x\",\r\n  \"status\": done\r\n}", "{\r\n  \"id\": \"x\",\r\n  \"status\": \"done\"\r\n}"},
		{"trailing commas", "{\n  \"title\": \"x\",\n  \"relatedFiles\": [\n    \"a\",\n  ],\n}", "{\n  \"title\": \"x\",\n  \"relatedFiles\": [\n    \"a\"\n  ]\n}"},
		{"trailing comma behind a list", `{"title": "x", "subtasks": [],}`, `{"title": "x", "subtasks": []}`},
		{"comments", "// mine\n{\n  # old\n  // \"status\": \"ready\",\n  \"title\": \"x\", // a\n  /* b */\n  \"meta\": {} // c\n}\n", "{\n  \"title\": \"x\",\n  \"meta\": {}\n}\n"},
		{"line break", "{\"title\": \"a\nb\tc\"}", `{"title": "a\nb\tc"}`},
		{"python", `{'title': 'say "hi"', 'notes': "it's", 'branch': None, 'meta': {'x': True, 'y': [None, 'a\'b']}}`, `{"title": "say \"hi\"", "notes": "it's", "branch": null, "meta": {"x": true, "y": [null, "a'b"]}}`},
		{"twice the same", "{\n  \"title\": \"x\",\n  \"status\": \"ready\",\n  \"title\": \"x\"\n}", "{\n  \"title\": \"x\",\n  \"status\": \"ready\"\n}"},
		{"twice below", `{"pipeline": {"round": 1, "round": 1, "phase": ""}}`, `{"pipeline": {"round": 1, "phase": ""}}`},
		{"mark", "\ufeff{\"title\": \"x\"}", `{"title": "x"}`},
		{"padding", "{\"title\": \"x\"}\n\x00\x00\x00", "{\"title\": \"x\"}\n"},
		{"mark and words", "\ufeff{\"title\": x, \"id\": \"x\"}", `{"title": "x", "id": "x"}`},
	} {
		got, err := taskdir.Repair("task.json", []byte(tt.before))
		if err != nil || got == nil && tt.after != "" {
			t.Errorf("%s: got %v, %v", tt.name, got, err)
			continue
		}
		if got != nil && (string(got.After) != tt.after || string(got.Before) != tt.before || len(got.Notes) == 0) {
			t.Errorf("%s: got\n%s\nwant\n%s\n(%v)", tt.name, got.After, tt.after, got.Notes)
		}
	}
}

func TestMendDoesNotGuess(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                       "",
		"only NUL bytes":              "\x00\x00",
		"truncated":                   "{\n  \"title\": \"x\",\n  \"sta",
		"a bracket missing":           `{"title": "x"`,
		"truncated and padded":        "{\"title\": \"x\",\x00\x00",
		"no value":                    `{"title": , "id": "x"}`,
		"null in other words":         `{"branch": None, "id": "x"}`,
		"a number that is none":       `{"title": 0x10, "id": "x"}`,
		"a list that may be one text": `{"scope": [a, b], "id": "x"}`,
		"a comma in words":            `{"title": add a, b and c, "id": "x"}`,
		"escapes in words":            `{"title": a\nb, "id": "x"}`,
		"a blank that may belong":     `{"id": "x", "title":  a}`,
		"a blank where others are":    `{"id":"x","title": a}`,
		"a blank behind":              `{"id": "x", "title": a }`,
		"nothing to compare with":     `{"status": planning}`,
		"words and a comma":           "{\n  \"id\": \"x\",\n  \"title\": a,\n}",
		"a comma of a text":           "{\n  \"id\": \"x\",\n  \"title\": 1,\n}",
		"a comment of a text":         "{\"id\": \"x\", \"title\": 1 // b\n}",
		"a number for a text":         `{"title": 7, "createdAt": 2026-01-16, "id": "x"}`,
		"an empty text in a list":     `{"scope": ["a", ], "id": "x"}`,
		"a comment in a list":         "{\"scope\": [# a\n \"b\"]}",
		"one text in single quotes":   `{"id": "x", "title": 'a'}`,
		"a key without quotes":        `{"meta": {a: 1}, "id": "x"}`,
		"twice and different":         `{"title": "x", "title": "y"}`,
		"a merge conflict":            "{\n<<<<<<< HEAD\n  \"title\": \"x\"\n=======\n  \"title\": \"x\"\n>>>>>>> b\n}",
		"text behind":                 "{\"title\": \"x\"}\n}",
		"not an object":               `["x"]`,
		"not UTF-8":                   "{\"title\": \"\xff\"}",
		"very deep":                   `{"a":` + strings.Repeat("[", 1<<20),
	} {
		got, err := taskdir.Repair("task.json", []byte(text))
		var p *trellis.Problem
		if got != nil || !errors.As(err, &p) || p.Line == 0 || p.Message == "" {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

// In files of other projects, Repair changes nothing but quotes, or returns a problem with its place.
func TestMendCorpus(t *testing.T) {
	mended := 0
	for path, data := range corpus(t) {
		got, err := taskdir.Repair(path, data)
		var p *trellis.Problem
		if errors.As(err, &p) && p.Line > 0 {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if json.Valid(data) != (got == nil) {
			t.Errorf("%s: got %v for valid %v", path, got, json.Valid(data))
		}
		if got == nil {
			continue
		}
		mended++
		if _, err := taskdir.Parse(path, got.After); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		was, now := strings.Split(string(data), "\n"), strings.Split(string(got.After), "\n")
		for i := range was {
			if was[i] != now[i] && strings.ReplaceAll(was[i], `"`, "") != strings.ReplaceAll(now[i], `"`, "") {
				t.Errorf("%s: got %s for %s", path, now[i], was[i])
			}
		}
	}
	if mended != 2 {
		t.Errorf("got %d mended files, want 2", mended)
	}
}

// damages has functions that damage a file in one way each, and return "" if that does not apply.
var damages = map[string]func(g generator, doc string, texts [][2]int) string{
	"no quotes": func(g generator, doc string, texts [][2]int) string {
		for range 1 + g.IntN(2) {
			if len(texts) == 0 {
				break
			}
			i := g.IntN(len(texts))
			at := texts[i]
			if left := doc[at[0]+1 : at[1]-1]; strings.TrimSpace(left) == "" || json.Valid([]byte("["+left+"]")) {
				break // still valid JSON without its quotes, if only in a list, so the damage can't be detected
			}
			doc = doc[:at[0]] + doc[at[0]+1:at[1]-1] + doc[at[1]:]
			texts = texts[:i]
		}
		return doc
	},
	"commas": func(g generator, doc string, _ [][2]int) string {
		return outside(doc, "}]", func(c string) string { return "," + c })
	},
	"comments": func(g generator, doc string, _ [][2]int) string {
		return outside(doc, ",{", func(c string) string { return c + g.pick(" /* a, b */ ", " // \"x\": 1\n", "\n# c,\n") })
	},
	"mark":      func(_ generator, doc string, _ [][2]int) string { return "\ufeff" + doc },
	"NUL bytes": func(g generator, doc string, _ [][2]int) string { return doc + strings.Repeat("\x00", 1+g.IntN(4096)) },
	"truncated": func(g generator, doc string, _ [][2]int) string { return strings.TrimSpace(doc[:g.IntN(len(doc))]) },
	"single quotes": func(_ generator, doc string, texts [][2]int) string {
		word := func(at [2]int) bool { return strings.Contains(doc[at[0]:at[1]], "null") }
		if strings.ContainsAny(doc, `'\`) || slices.ContainsFunc(texts, word) {
			return ""
		}
		doc = strings.ReplaceAll(doc, `"`, "'")
		return strings.NewReplacer("null", "None", "true", "True", "false", "False").Replace(doc)
	},
	"line breaks": func(_ generator, doc string, _ [][2]int) string {
		return strings.ReplaceAll(strings.ReplaceAll(doc, `\\`, ""), `\n`, "\n")
	},
	"a line twice": func(g generator, doc string, _ [][2]int) string {
		lines := strings.SplitAfter(doc, "\n")
		i := g.IntN(len(lines))
		return strings.Join(slices.Insert(slices.Clone(lines), i, lines[i]), "")
	},
}

// outside replaces those of chars that are outside of string literals.
func outside(doc, chars string, with func(string) string) string {
	var b strings.Builder
	in := false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case c == '\\' && in:
			b.WriteString(doc[i : i+2])
			i++
			continue
		case c == '"':
			in = !in
		case !in && strings.IndexByte(chars, c) >= 0:
			b.WriteString(with(string(c)))
			continue
		}
		b.WriteByte(doc[i])
	}
	return b.String()
}

// textsIn returns the offsets of the strings in doc that are values, quotes included.
func textsIn(doc string) (list [][2]int) {
	for i := 0; i < len(doc); i++ {
		if doc[i] != '"' {
			continue
		}
		from := i
		for i++; doc[i] != '"'; i++ {
			if doc[i] == '\\' {
				i++
			}
		}
		if rest := strings.TrimLeft(doc[i+1:], " \r\n\t"); rest[0] != ':' {
			list = append(list, [2]int{from, i + 1})
		}
	}
	return list
}

// task returns a random task.json whose strings look like any kind of syntax.
func (g generator) task() string {
	text := func() string {
		words := []string{"fix", "the", "login,", "2026-01-16", "feature/x", "a: b", "# c", "// d", "/* e */", "{f}", "[g]", "'h'", `\"i\"`, `\n`, "null", "None", "7", "1,", "}", "é", "", " "}
		s := ""
		for range 1 + g.IntN(3) {
			s += words[g.IntN(len(words))] + g.pick("", "", " ")
		}
		return `"` + s + `"`
	}
	newline := g.pick("\n  ", "\n  ", "\r\n\t", "", " ")
	colon := g.pick(": ", ": ", ":")
	var members []string
	for _, key := range []string{"id", "title", "status", "branch", "priority", "completedAt", "notes", "description", "mine"} {
		if g.IntN(3) > 0 {
			members = append(members, fmt.Sprintf("%q%s%s", key, colon, g.pick(text(), text(), text(), "null")))
		}
	}
	members = append(members, `"subtasks"`+colon+g.pick("[]", "["+text()+"]", "["+text()+", "+text()+"]", "[\n    "+text()+"\n  ]"),
		`"meta"`+colon+g.pick("{}", `{"a"`+colon+text()+"}", `{"a"`+colon+"[1, true, "+text()+`], "b"`+colon+"0}"))
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + newline + strings.Join(members, ","+newline) + strings.TrimRight(newline, " \t") + "}\n"
}

// Repair repairs a single damage to a valid file so that all values are the original ones, or leaves the file alone.
func TestMendNeverChangesAValue(t *testing.T) {
	mended, documents := map[string]int{}, uint64(1500/soak.Every(3))
	for seed := range documents {
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		doc := g.task()
		if _, err := taskdir.Repair("task.json", []byte(doc)); err != nil {
			t.Fatalf("seed %d: %v in\n%s", seed, err, doc)
		}
		for _, name := range slices.Sorted(maps.Keys(damages)) { // in a fixed order, as each draws numbers from the generator
			broken := damages[name](g, doc, textsIn(doc))
			if strings.TrimSpace(broken) == "" || json.Valid([]byte(broken)) && name != "a line twice" {
				continue
			}
			got, err := taskdir.Repair("task.json", []byte(broken))
			if err != nil || got == nil {
				continue
			}
			mended[name]++
			var want, have any
			if err := errors.Join(json.Unmarshal([]byte(doc), &want), json.Unmarshal(got.After, &have)); err != nil || !reflect.DeepEqual(want, have) {
				t.Fatalf("seed %d, %s: %v\n%s\nbecame\n%s\nmended to\n%s", seed, name, err, doc, broken, got.After)
			}
		}
	}
	for name := range damages {
		if uint64(mended[name])*150 < documents != (name == "truncated") {
			t.Errorf("%s: %d of %d mended", name, mended[name], documents)
		}
	}
}

func FuzzMend(f *testing.F) {
	f.Add([]byte("{\n  \"id\": \"x\",\n  \"createdAt\": 2026-01-16\n}"))
	f.Add([]byte("{'a': None} // x"))
	f.Add([]byte("\ufeff{\"a\": [1,],}\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := taskdir.Repair("task.json", data)
		if err != nil || got == nil {
			return
		}
		if _, err := taskdir.Parse("task.json", got.After); err != nil {
			t.Fatalf("%q: %v", got.After, err)
		}
		if again, err := taskdir.Repair("task.json", got.After); again != nil || err != nil {
			t.Fatalf("%q is mended again: %v, %v", got.After, again, err)
		}
	})
}
