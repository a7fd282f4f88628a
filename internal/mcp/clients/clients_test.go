package clients_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/mcp/clients"
)

// files are settings that people have, by program. "" is no file.
var files = map[string][]string{
	"claude": {"", "{}", "{}\n", "{\n  \"numStartups\": 3,\n  \"mcpServers\": {}\n}\n", "{\"mcpServers\":{\"other\":{\"command\":\"x\"}},\"a\":1}",
		"{\n\t\"mcpServers\" : {\n\t\t\"other\": {\"command\": \"x\"}\n\t},\n\t\"history\": [\"\\u00e4 {\\\"trellis\\\": 1}\"]\n}", "\n{ \"a\": [1, 2] , \"mcpServers\": { } }"},
	"opencode": {"", "{\n  // servers of mine\n  \"mcp\": {\n    // this one\n    \"other\": {\"type\": \"local\", \"command\": [\"x\"]}, // and no more\n  },\n  \"model\": \"a/b\", /* the best */\n}\n",
		"{ // nothing yet\n}\n", "{\r\n  \"$schema\": \"https://opencode.ai/config.json\"\r\n}\r\n"},
	"codex": {"", "model = \"x\"", "model = \"x\" # mine\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[mcp_servers.other.env]\nA = \"b\"\n", "[mcp_servers]\n", "# nothing yet\n",
		"[projects.\"/a/b\"]\ntrust_level = \"trusted\"\n\n\n"},
}

// home is where a program finds its settings, in a folder of a test.
func home(t *testing.T) func(string) string {
	dir := t.TempDir()
	return func(name string) string {
		if name == "HOME" {
			return dir
		}
		return ""
	}
}

func find(t *testing.T, name string) clients.Client {
	t.Helper()
	for _, c := range clients.All {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("nobody knows %s", name)
	return clients.Client{}
}

var command = []string{`/opt/a "b"\c/trellis`, "mcp", "--tools", "read"}

// lay writes the settings of a program, and returns where they are.
func lay(t *testing.T, c clients.Client, get func(string) string, text string) string {
	t.Helper()
	e, err := c.Look(get, command)
	if err != nil {
		t.Fatal(err)
	}
	if text == "" {
		return e.File
	}
	if err := os.MkdirAll(filepath.Dir(e.File), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return e.File
}

// saved is what a file says, "" when it is not there.
func saved(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// An entry is there once it was added, and when it is taken out the file is what it was, to the byte.
func TestAddedAndTakenOut(t *testing.T) {
	for name, texts := range files {
		for _, before := range texts {
			c, get := find(t, name), home(t)
			path := lay(t, c, get, before)
			e, err := c.Look(get, command)
			if err != nil || !e.Made || e.Other {
				t.Fatalf("%s: got %+v %v of %q", name, e, err, before)
			}
			if err := c.Add(nil, e); err != nil {
				t.Fatalf("%s: %v of %q", name, err, before)
			}
			with := saved(t, path)
			if e, err := c.Look(get, command); err != nil || e.Made || e.Other {
				t.Errorf("%s: got %+v %v of %q, want the entry that was added", name, e, err, with)
			}
			if e, err := c.Look(get, []string{"trellis", "mcp"}); err != nil || e.Made || !e.Other {
				t.Errorf("%s: got %+v %v of %q, want another entry", name, e, err, with)
			}
			if st, err := os.Stat(path); before != "" && (err != nil || st.Mode().Perm() != 0o600) {
				t.Errorf("%s: got %v %v, want the permission that it had", name, st, err)
			}
			if e, err := c.Remove(nil, get); err != nil || !e.Made {
				t.Errorf("%s: got %+v %v of %q", name, e, err, with)
			}
			if got := saved(t, path); got != before {
				t.Errorf("%s: got %q of %q, want %q", name, got, with, before)
			}
			if e, err := c.Remove(nil, get); err != nil || e.Made {
				t.Errorf("%s: got %+v %v, want nothing to take out", name, e, err)
			}
		}
	}
}

// An entry that somebody changed since, or that its program wrote anew, is taken out alone.
func TestChangedEntryIsTakenOut(t *testing.T) {
	for name, c := range map[string]struct{ client, text, want string }{
		"written anew": {"claude", "{\n  \"a\": 1,\n  \"mcpServers\": {\n    \"other\": {},\n    \"trellis\": {\n      \"command\": \"trellis\"\n    }\n  }\n}\n", "{\n  \"a\": 1,\n  \"mcpServers\": {\n    \"other\": {}\n  }\n}\n"},
		"with a table below": {"codex", "a = 1\n\n[mcp_servers.trellis]\ncommand = \"trellis\"\n# mine\nargs = [\n  \"mcp\",\n]\nenabled = true\n\n[mcp_servers.trellis.env]\nA = \"b\"\n\n# of the next one\n[mcp_servers.other]\ncommand = \"x\"\n",
			"a = 1\n\n\n# of the next one\n[mcp_servers.other]\ncommand = \"x\"\n"},
	} {
		client, get := find(t, c.client), home(t)
		path := lay(t, client, get, c.text)
		e, err := client.Remove(nil, get)
		if got := saved(t, path); err != nil || !e.Made || strings.Contains(got, "trellis") || strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(c.want), " ") {
			t.Errorf("%s: got %+v %v %q, want %q", name, e, err, got, c.want)
		}
	}
}

// A file that is not what it should be stays as it is.
func TestOddFilesStay(t *testing.T) {
	for name, c := range map[string]struct{ client, text, want string }{
		"no JSON":                  {"claude", "{\"a\": ", "not JSON"},
		"no object":                {"claude", "[]", "no JSON object"},
		"no object of servers":     {"claude", "{\"mcpServers\": []}", "no object"},
		"empty":                    {"opencode", " ", "not JSON"},
		"no TOML":                  {"codex", "a = ", "not TOML"},
		"servers in one line":      {"codex", "mcp_servers = {other = {command = \"x\"}}\n", "no place"},
		"the server in one line":   {"codex", "mcp_servers.trellis = {command = \"x\"}\n", "by hand"},
		"servers that are no such": {"codex", "mcp_servers = 1\n", "no table"},
	} {
		client, get := find(t, c.client), home(t)
		e, _ := client.Look(get, command)
		if err := os.MkdirAll(filepath.Dir(e.File), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(e.File, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := client.Look(get, command)
		if err == nil {
			err = client.Add(nil, e)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), e.File) {
			t.Errorf("%s: got %v, want %q with the file", name, err, c.want)
		}
		if got := saved(t, e.File); got != c.text {
			t.Errorf("%s: it says %q now", name, got)
		}
	}
}

// A link to the settings, as those have it who keep them elsewhere, stays one.
func TestLinkStays(t *testing.T) {
	c, get := find(t, "claude"), home(t)
	kept := filepath.Join(t.TempDir(), "kept.json")
	if err := os.WriteFile(kept, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := c.Look(get, command)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, e.File); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(nil, e); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(e.File); err != nil || st.Mode()&fs.ModeSymlink == 0 || !strings.Contains(saved(t, kept), "mcpServers") {
		t.Errorf("got %v %v %q", st, err, saved(t, kept))
	}
	if _, err := c.Remove(&durable.Disk{}, get); err != nil || saved(t, kept) != "{}\n" {
		t.Errorf("got %v %q", err, saved(t, kept))
	}
}
