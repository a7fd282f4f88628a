package yamledit_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/yamledit"
	"go.yaml.in/yaml/v3"
)

const settings = `# What stands here stays.
agents:
  default: ""   # nobody
#  roles:
#    judge: {agent: claude}

verify:
  # fast ones first
  - go vet ./...   # in seconds
  - "go test ./..."

#baseline: true

#limits:
#  parallel: 2
#  rounds: 5

protected: [".trellis/**", 'go.mod']
worktree: {dir: ../trees, copy: [.env]}
planning:
  approval: none
  # nobody else
`

func TestSet(t *testing.T) {
	for name, c := range map[string]struct {
		path     string
		value    yamledit.Value
		from, to string // the part of the settings that changes
	}{
		"a text keeps its quotes":       {"agents.default", yamledit.Text("claude"), `default: ""   # nobody`, `default: "claude"   # nobody`},
		"a word":                        {"planning.approval", yamledit.Text("plan"), "approval: none", "approval: plan"},
		"a new key of a mapping":        {"planning.max_steps", yamledit.Word("7"), "approval: none\n", "approval: none\n  max_steps: 7\n"},
		"below the comment that has it": {"baseline", yamledit.Word("false"), "#baseline: true\n", "#baseline: true\nbaseline: false\n"},
		"below a mapping of comments":   {"limits.parallel", yamledit.Word("4"), "#  rounds: 5\n", "#  rounds: 5\nlimits:\n  parallel: 4\n"},
		"at the end":                    {"sandbox", yamledit.Text("auto"), "  approval: none\n", "  approval: none\nsandbox: auto\n"},
		"a new mapping in another":      {"agents.roles.judge.model", yamledit.Text("haiku"), "# nobody\n", "# nobody\n  roles:\n    judge:\n      model: haiku\n"},
		"a new list":                    {"worktree.setup", yamledit.List([]string{"make", "a, b"}), "[.env]}", "[.env], setup: [make, 'a, b']}"},
		"an item behind":                {"verify", yamledit.List([]string{"go vet ./...", "go test ./...", "make: x"}), "./...\"\n", "./...\"\n  - 'make: x'\n"},
		"an item in front":              {"verify", yamledit.List([]string{"make", "go vet ./...", "go test ./..."}), "verify:\n", "verify:\n  - make\n"},
		"an item less":                  {"verify", yamledit.List([]string{"go test ./..."}), "  - go vet ./...   # in seconds\n", ""},
		"another item":                  {"verify", yamledit.List([]string{"go vet ./...", "make #1"}), `"go test ./..."`, `"make #1"`},
		"no item":                       {"verify", yamledit.List(nil), "verify:\n  # fast ones first\n  - go vet ./...   # in seconds\n  - \"go test ./...\"\n", "verify: []\n  # fast ones first\n"},
		"an item in brackets":           {"protected", yamledit.List([]string{".trellis/**", "x", "go.mod"}), `".trellis/**", `, `".trellis/**", x, `},
		"an item of brackets less":      {"protected", yamledit.List([]string{"go.mod"}), `".trellis/**", `, ``},
		"in braces":                     {"worktree.dir", yamledit.Text("{x}"), "../trees", "'{x}'"},
	} {
		t.Run(name, func(t *testing.T) {
			for eol, src := range map[string]string{"LF": settings, "CRLF": strings.ReplaceAll(settings, "\n", "\r\n")} {
				want := strings.Replace(settings, c.from, c.to, 1)
				if eol == "CRLF" {
					want = strings.ReplaceAll(want, "\n", "\r\n")
				}
				got, err := yamledit.Set([]byte(src), strings.Split(c.path, "."), c.value)
				if err != nil || string(got) != want {
					t.Errorf("%s: got %v\n%s\nwant\n%s", eol, err, got, want)
				}
			}
		})
	}
}

func TestUnset(t *testing.T) {
	for path, change := range map[string][2]string{
		"agents.default":       {"agents:\n  default: \"\"   # nobody\n", ""},
		"verify":               {"verify:\n  # fast ones first\n  - go vet ./...   # in seconds\n  - \"go test ./...\"\n", ""},
		"worktree.dir":         {"dir: ../trees, ", ""},
		"worktree.copy":        {", copy: [.env]", ""},
		"planning.approval":    {"  approval: none\n", ""}, // the mapping is kept, as it has a comment
		"planning":             {"planning:\n  approval: none\n", ""},
		"nobody.knows.the.key": {"", ""},
	} {
		want := strings.Replace(settings, change[0], change[1], 1)
		got, err := yamledit.Unset([]byte(settings), strings.Split(path, "."))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", path, err, got, want)
		}
	}
}

// For a layout that it can't write to, Set returns ErrLayout, and never guesses.
func TestLayout(t *testing.T) {
	for _, src := range []string{"limits: !!map {parallel: !!int 1}\n", "a: &x {parallel: 1}\nlimits: *x\n", "limits: [1]\n", "limits: 3\n", "a: 1\n---\nb: 2\n", "limits: \xff\n"} {
		if got, err := yamledit.Set([]byte(src), []string{"limits", "parallel"}, yamledit.Word("2")); !errors.Is(err, yamledit.ErrLayout) {
			t.Errorf("%q became %q, %v", src, got, err)
		}
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'm'; c++ {
		bomb += fmt.Sprintf("%c: &%[1]c [*%c%s]\n", c, c-1, strings.Repeat(fmt.Sprintf(", *%c", c-1), 7))
	}
	if _, err := yamledit.Set([]byte(bomb), []string{"limits"}, yamledit.Text("x")); !errors.Is(err, yamledit.ErrLayout) {
		t.Errorf("what repeats itself without end: %v", err)
	}
	if _, err := yamledit.Set([]byte("a: [\n"), []string{"b"}, yamledit.Text("x")); err == nil || errors.Is(err, yamledit.ErrLayout) {
		t.Errorf("what is not valid YAML: %v", err)
	}
}

// Whatever the document, the value that was set is read, everything else reads as before, and Unset restores the original bytes,
// or a document that says the same.
func FuzzSet(f *testing.F) {
	for _, src := range []string{settings, "", "# nothing", "a: 1\r\nb:\r\n- x\r\n", "limits:\n  rounds: 1 # one", "limits: {}\n", "limits: ~\nz: |\n  #limits:\n  x\n\n", "---\nlimits:\n#c\n  rounds: 5\n...\n",
		"\ufeffverify: [a,\n  b] # c\n", "limits:\n    rounds: >-\n      5\n", "{limits: {rounds: 5}}", "verify:\n- - a\n", "'limits': # x\n\nverify:\n", "a: \"x\n  y\"\nb: p q\n  r\n"} {
		f.Add([]byte(src), "limits.rounds", "7", false)
		f.Add([]byte(src), "verify", "go test ./...\nx: #y", true)
		f.Add([]byte(src), "a.b.c", "it's \"so\"", false)
	}
	f.Fuzz(func(t *testing.T, src []byte, key, text string, many bool) {
		path, value := strings.Split(key, "."), yamledit.Text(text)
		var want any = text
		if many {
			items := strings.Split(text, "\n")
			value, want = yamledit.List(items), anyList(items)
		}
		before, ok := read(src)
		if !ok || strings.ToValidUTF8(text, "") != text || strings.ToValidUTF8(key, "") != key {
			t.Skip()
		}
		was, had := lookUp(before, path)
		now, err := yamledit.Set(src, path, value)
		if err != nil {
			return // and nothing is written
		}
		after, ok := read(now)
		if got, _ := lookUp(after, path); !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("set %q to %q in\n%q, which made\n%q", path, text, src, now)
		}
		if had {
			put(after, path, was)
		} else {
			remove(after, path)
		}
		if !same(before, after) {
			t.Fatalf("set %q to %q in\n%q changed something else:\n%q", path, text, src, now)
		}
		back, err := yamledit.Unset(now, path)
		if err != nil {
			t.Fatalf("unset %q of\n%q: %v", path, now, err)
		}
		if _, within := lookUp(before, path[:1]); !had && !within && !bytes.Equal(back, src) && !bytes.ContainsRune(src, '{') && oneLineEnd(src) {
			t.Fatalf("set and unset %q made of\n%q\n%q", path, src, back)
		}
		remove(before, path)
		if left, ok := read(back); !ok || !same(before, left) {
			t.Fatalf("unset %q of\n%q made\n%q", path, now, back)
		}
	})
}

// oneLineEnd reports whether all lines of src have the same ending, so that lines that Set adds have it, too.
func oneLineEnd(src []byte) bool {
	crlf := bytes.Count(src, []byte("\r\n"))
	return (crlf == 0 || crlf == bytes.Count(src, []byte("\n"))) && crlf == bytes.Count(src, []byte("\r")) && !bytes.ContainsAny(src, "\u0085\u2028\u2029")
}

func anyList(items []string) (list []any) {
	for _, s := range items {
		list = append(list, s)
	}
	return list
}

func read(src []byte) (map[string]any, bool) {
	m := map[string]any{}
	ok := yaml.Unmarshal(src, &m) == nil
	if m == nil {
		m = map[string]any{}
	}
	return m, ok
}

func lookUp(m map[string]any, path []string) (any, bool) {
	v, ok := m[path[0]]
	if len(path) == 1 || !ok {
		return v, ok
	}
	inner, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	return lookUp(inner, path[1:])
}

func put(m map[string]any, path []string, v any) {
	if len(path) == 1 {
		m[path[0]] = v
		return
	}
	put(m[path[0]].(map[string]any), path[1:], v)
}

func remove(m map[string]any, path []string) {
	if inner, ok := m[path[0]].(map[string]any); ok && len(path) > 1 {
		remove(inner, path[1:])
	} else if len(path) == 1 {
		delete(m, path[0])
	}
}

// same reports whether two documents say the same, except for empty mappings and values.
func same(a, b map[string]any) bool { return reflect.DeepEqual(pruned(a), pruned(b)) }

func pruned(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, v := range m {
		if v := pruned(v); v != nil && !reflect.DeepEqual(v, map[string]any{}) {
			out[k] = v
		}
	}
	return out
}
