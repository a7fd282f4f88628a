package mcpclients_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/mcpclients"
)

// settings are examples of what people have in the settings of a program. opencode accepts what claude does, and comments.
var settings = map[string][]string{
	"claude": {
		"", "\n", "{}", "{ }\n", "{\n}\n", `{"a":1}`, `{"mcpServers":{}}`, `{"mcpServers":{"other":{"command":"x"}},"b":[1,2]}`,
		"{\n  \"a\": 1,\n  \"mcpServers\": {}\n}", "{\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"}\n\t},\n\t\"n\": 12345678901234567890\n}\n",
		"{\r\n  \"a\": \"b\",\r\n  \"mcpServers\": {\r\n  }\r\n}\r\n", "{\n\"a\": 1\n}\n", "   {\"a\": {\"mcpServers\": {\"trellis\": 1}}}\n\n", "{\"a\": \"\\u0041 <&> ü\"}\n",
	},
	"codex": {
		"", "\n", "model = \"m\"\n", "model = \"m\"", "# mine\nmodel = \"m\" # so\n\n[mcp_servers.other]\ncommand = \"x\"\n", "[a]\nb = 1\r\n[c]\r\n", "[mcp_servers]\n", "x = \"\"\"\n[mcp_servers.trellis]\n\"\"\"\n",
		"[[a]]\nb = 1\n[[a]]\nb = 2\n# end",
	},
	"opencode": {
		"{\n  // mine\n  \"$schema\": \"https://opencode.ai/config.json\", // so\n  /* and */ \"mcp\": { // servers\n    // one\n    \"other\": {\"type\": \"local\", \"command\": [\"x\"]}, // two\n  },\n}\n",
		"{ // mine\n}\n", "{ /* mine\n too */\n  \"a\": 1 }\n", "{\"mcp\": { /* none */ }}", "{\"mcp\": {\n  // none\n}, // so\n}", "{\n  \"mcp\": {\"other\": {}},\n}\n", "// head\n{\n    \"theme\": \"x\",\n}\n// foot\n", "{// x\n\"a\":1}",
	},
}

// all returns the examples for a program.
func all(name string) []string {
	if name == "opencode" {
		var list []string
		for _, s := range settings["claude"] {
			list = append(list, strings.ReplaceAll(s, "mcpServers", "mcp"))
		}
		return append(list, settings[name]...)
	}
	return settings[name]
}

// command is the command line that starts the server.
var command = []string{`/a "b"/trellis`, "mcp"}

// entry returns the server's entry in the settings of a program, for the home folder home.
func entry(t *testing.T, name, home string) mcpclients.Entry {
	t.Helper()
	c, err := mcpclients.New(name, func(variable string) string { return map[string]string{"HOME": home}[variable] })
	if err != nil || c == nil {
		t.Fatalf("got %v, %v", c, err)
	}
	return mcpclients.Entry{Client: *c, Note: filepath.Join(home, "state", name+".json")}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o640)); err != nil {
		t.Fatal(err)
	}
}

// Removing the entry restores the settings to the byte if there is a note of what was added; without the note, the settings say
// what they said.
func TestAddAndRemove(t *testing.T) {
	for _, name := range mcpclients.Names {
		for _, was := range all(name) {
			for _, noted := range []bool{true, false} {
				e := entry(t, name, t.TempDir())
				if !noted {
					if strings.Contains(was, `"""`) {
						continue // the end of a table can't be found line by line: see TestRefused
					}
					e.Note = ""
				}
				write(t, e.File, was)
				if c, err := e.Add(command); err != nil || c.There || c.Text == "" {
					t.Errorf("%s: adding to %q: %+v, %v", name, was, c, err)
					continue
				}
				now := read(t, e.File)
				if c, err := e.Add(command); err != nil || !c.There || read(t, e.File) != now {
					t.Errorf("%s: adding once more to %q: %+v, %v", name, now, c, err)
				}
				c, err := e.Remove()
				got := read(t, e.File)
				if err != nil || !c.There || c.Edited == noted || c.Gone || c.Text == "" || noted && got != was {
					t.Errorf("%s: %q became %q and then %q: %+v, %v", name, was, now, got, c, err)
				}
				if c, err := e.Remove(); err != nil || c.There || read(t, e.File) != got {
					t.Errorf("%s: removing once more from %q: %+v, %v", name, got, c, err)
				}
				if st, err := os.Stat(e.File); err != nil || st.Mode().Perm() != 0o640 {
					t.Errorf("%s: got %v, %v, want its permissions kept", name, st.Mode(), err)
				}
			}
		}
	}
}

// If there were no settings before, none are left in the end, nor folders that were made for them.
func TestMadeAndGone(t *testing.T) {
	for _, name := range mcpclients.Names {
		home := t.TempDir()
		e := entry(t, name, home)
		if c, err := e.PreviewRemove(); err != nil || c.There {
			t.Errorf("%s: got %+v, %v of nothing", name, c, err)
		}
		if _, err := e.Add(command); err != nil {
			t.Fatal(err)
		}
		if c, err := e.Remove(); err != nil || !c.Gone || c.Edited {
			t.Errorf("%s: got %+v, %v", name, c, err)
		}
		left, err := os.ReadDir(home)
		if err != nil || len(left) != 1 || left[0].Name() != "state" {
			t.Errorf("%s: %v, %v is left", name, left, err)
		}
		if _, err := os.Stat(e.Note); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the note is left: %v", name, err)
		}
	}
}

// What people changed since is kept, and the server's entry is removed even if they changed it.
func TestEditedSince(t *testing.T) {
	for _, one := range []struct{ name, was, from, to, want string }{
		{"claude", "{\n  \"a\": 1\n}\n", `"a": 1`, `"a": 2`, "{\n  \"a\": 2\n}\n"},
		{"claude", "{\n  \"mcpServers\": {\n    \"other\": {}\n  }\n}\n", `"args": [`, `"env": {"A": "b"}, "args": [`, "{\n  \"mcpServers\": {\n    \"other\": {}\n  }\n}\n"},
		{"codex", "model = \"m\"\n", "model = \"m\"", "model = \"n\"", "model = \"n\"\n"},
		{"codex", "model = \"m\"\n", "args = [", "enabled = true\nargs = [", "model = \"m\"\n\n"},
		{"codex", "model = \"m\"\n", "args = [\"mcp\"]\n", "args = []\n# mine\n\n# about b\n[b]\nc = 1\n", "model = \"m\"\n\n# mine\n\n# about b\n[b]\nc = 1\n"},
		{"opencode", "{\n  // mine\n  \"mcp\": {},\n}\n", `"enabled": true`, `"enabled": false`, "{\n  // mine\n  \"mcp\": {\n  },\n}\n"},
	} {
		e := entry(t, one.name, t.TempDir())
		write(t, e.File, one.was)
		if _, err := e.Add(command); err != nil {
			t.Fatal(err)
		}
		text := read(t, e.File)
		if !strings.Contains(text, one.from) {
			t.Fatalf("%q is not in %q", one.from, text)
		}
		write(t, e.File, strings.Replace(text, one.from, one.to, 1))
		c, err := e.Remove()
		if got := read(t, e.File); err != nil || !c.Edited || got != one.want {
			t.Errorf("%s: got %q, %+v, %v, want %q", one.name, got, c, err, one.want)
		}
	}
}

// A file that was made for the server is kept if others put something into it.
func TestMadeAndEdited(t *testing.T) {
	e := entry(t, "codex", t.TempDir())
	if _, err := e.Add(command); err != nil {
		t.Fatal(err)
	}
	write(t, e.File, "model = \"m\"\n"+read(t, e.File))
	if c, err := e.Remove(); err != nil || c.Gone || read(t, e.File) != "model = \"m\"\n" {
		t.Errorf("got %+v, %v, %q", c, err, read(t, e.File))
	}
}

// A file that was made for the server is also kept if another program puts something into it while the file is being removed.
func TestMadeAndEditedMeanwhile(t *testing.T) {
	e := entry(t, "codex", t.TempDir())
	if _, err := e.Add(command); err != nil {
		t.Fatal(err)
	}
	saved := false
	e.Disk = &durable.Disk{Fault: func(string, string) error {
		if !saved {
			saved = true
			write(t, e.File, "model = \"m\"\n"+read(t, e.File))
		}
		return nil
	}}
	if c, err := e.Remove(); err != nil || !saved || c.Gone || read(t, e.File) != "model = \"m\"\n" {
		t.Errorf("got %+v, %v, saved: %v", c, err, saved)
	}
}

// Settings that can't be read, or edited without harm, stay as they are.
func TestRefused(t *testing.T) {
	for name, list := range map[string][]string{
		"claude":   {"{", "[]", `{"mcpServers": []}`, "\xef\xbb\xbf{}", `{"a": 1} x`},
		"codex":    {"a = ", `mcp_servers = 1`, `mcp_servers = {other = {command = "x"}}`},
		"opencode": {`{"mcp": "x"}`},
	} {
		for _, was := range list {
			e := entry(t, name, t.TempDir())
			write(t, e.File, was)
			if _, err := e.Add(command); err == nil || !strings.Contains(err.Error(), e.File) || read(t, e.File) != was {
				t.Errorf("%s: %q became %q, %v", name, was, read(t, e.File), err)
			}
		}
	}
	for name, was := range map[string]string{
		"codex":  "mcp_servers.trellis.command = \"x\"\n",
		"claude": `{"mcpServers": {"trellis": {}, "trellis": {}}}`,
		"codex ": "x = \"\"\"\n[mcp_servers.trellis]\n\"\"\"\n[mcp_servers.trellis]\n",
	} {
		e := entry(t, strings.TrimSpace(name), t.TempDir())
		write(t, e.File, was)
		if _, err := e.Remove(); err == nil || !strings.Contains(err.Error(), "by hand") || read(t, e.File) != was {
			t.Errorf("%s: %q became %q, %v", name, was, read(t, e.File), err)
		}
	}
}

// Settings that are a symbolic link stay a link.
func TestLinkedSettings(t *testing.T) {
	home := t.TempDir()
	real := filepath.Join(home, "dotfiles", "claude.json")
	write(t, real, "{}\n")
	if err := os.Symlink(real, filepath.Join(home, ".claude.json")); err != nil {
		t.Fatal(err)
	}
	e := entry(t, "claude", home)
	if _, err := e.Add(command); err != nil || !strings.Contains(read(t, real), "trellis") {
		t.Errorf("got %q, %v", read(t, real), err)
	}
	if _, err := e.Remove(); err != nil || read(t, real) != "{}\n" {
		t.Errorf("got %q, %v", read(t, real), err)
	}
	if st, err := os.Lstat(filepath.Join(home, ".claude.json")); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("got %v, %v", st, err)
	}
}

// For any settings, adding and removing the entry is refused, or restores the settings.
func FuzzAddAndRemove(f *testing.F) {
	for i, name := range mcpclients.Names {
		for _, was := range all(name) {
			f.Add(i, was)
		}
	}
	f.Fuzz(func(t *testing.T, i int, was string) {
		if i < 0 || i >= len(mcpclients.Names) {
			return
		}
		e := entry(t, mcpclients.Names[i], t.TempDir())
		write(t, e.File, was)
		c, err := e.Add(command)
		if err != nil || c.There {
			if got := read(t, e.File); got != was {
				t.Fatalf("%q became %q: %+v, %v", was, got, c, err)
			}
			return
		}
		if _, err := e.Remove(); err != nil || read(t, e.File) != was {
			t.Fatalf("%q became %q, %v", was, read(t, e.File), err)
		}
	})
}

func TestUnknownProgram(t *testing.T) {
	if c, err := mcpclients.New("vim", func(string) string { return "/" }); c != nil || err != nil || slices.Contains(mcpclients.Names, "vim") {
		t.Errorf("got %v, %v", c, err)
	}
	if _, err := mcpclients.New("claude", func(string) string { return "" }); err == nil {
		t.Error("there is no home, and it was taken")
	}
}
