package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/config"
)

// row is a row of a table in docs/reference/cli.md: the code in its first cell, and its second cell.
type row struct{ first, second string }

func tableRows(t *testing.T, begin *regexp.Regexp) []row {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), "docs", "reference", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), "|")
		if len(cells) == 4 && begin.MatchString(cells[1]) {
			clean := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\x00", "|")) }
			rows = append(rows, row{clean(cells[1]), clean(cells[2])})
		}
	}
	return rows
}

// The table in docs/reference/cli.md has exactly the commands that exist, with all their flags.
func TestCommandsAreDocumented(t *testing.T) {
	documented := map[string]string{}
	words := regexp.MustCompile("^`trellis ((?:[a-z-]+ ?)+)")
	flags := regexp.MustCompile(`(?:^|[\s\[])(--?[a-z][a-z-]*)`)
	commands := leaves(commands(new(command.Console)), "")
	for _, r := range tableRows(t, regexp.MustCompile("^ `trellis ")) {
		path := strings.TrimSpace(words.FindStringSubmatch(r.first)[1])
		for commands[path] == nil && strings.Contains(path, " ") { // arguments of completion look like words of a command
			path = path[:strings.LastIndex(path, " ")]
		}
		c := commands[path]
		if c == nil {
			t.Errorf("docs/reference/cli.md names trellis %s, which does not exist", path)
			continue
		}
		documented[path] = r.second
		if r.second != c.Usage {
			t.Errorf("%s: docs/reference/cli.md says %q, the command %q", path, r.second, c.Usage)
		}
		var named []string
		for _, m := range flags.FindAllStringSubmatch(r.first, -1) {
			named = append(named, strings.TrimLeft(m[1], "-"))
		}
		compareFlags(t, path, c, named)
	}
	for _, path := range slices.Sorted(maps.Keys(commands)) {
		if _, ok := documented[path]; !ok {
			t.Errorf("docs/reference/cli.md lacks trellis %s", path)
		}
	}
}

func compareFlags(t *testing.T, path string, c *cli.Command, named []string) {
	t.Helper()
	for _, f := range c.Flags {
		if !slices.ContainsFunc(f.Names(), func(n string) bool { return slices.Contains(named, n) }) {
			t.Errorf("docs/reference/cli.md lacks flag %s of %s", f.Names()[0], path)
		}
	}
	for _, n := range named {
		if commandline.FindFlag(c.Flags, n) == nil {
			t.Errorf("docs/reference/cli.md gives %s a flag %s, which it has not", path, n)
		}
	}
}

func TestExitCodesAreDocumented(t *testing.T) {
	var got []row
	for _, e := range command.Exits {
		got = append(got, row{strconv.Itoa(e.Code), e.Meaning})
	}
	if want := tableRows(t, regexp.MustCompile(`^ \d+ $`)); !slices.Equal(got, want) {
		t.Errorf("the table of exit codes in docs/reference/cli.md is\n%v\nand help shows\n%v", want, got)
	}
}

// The table in docs/reference/config.md matches the code. TRELLIS_UPDATE_DOCS=1 writes it.
func TestSettingsAreDocumented(t *testing.T) {
	path := filepath.Join(repository(t), "docs", "reference", "config.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), "| key | type | default | meaning |")
	above, rest, foundToo := strings.Cut(head, "| your key | type | meaning |")
	_, between, _ := strings.Cut(rest, "\n\n")
	found = found && foundToo
	want := above + userSettings() + "\n" + between + settings()
	if os.Getenv("TRELLIS_UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !found || string(text) != want {
		t.Errorf("docs/reference/config.md has another table than\n%s", settings())
	}
}

// The example of a whole config.yaml is valid and has every key.
func TestConfigExample(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(repository(t), "docs", "reference", "config-example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := config.Load(config.Files{Root: t.TempDir(), Config: config.File{Name: "config-example.yaml", Data: data}}); len(problems) > 0 {
		t.Errorf("it is not valid: %v", problems)
	}
	for _, r := range config.Table() {
		words := strings.FieldsFunc(r.Key, func(c rune) bool { return c == '.' || c == '[' })
		last := words[len(words)-1]
		if strings.HasPrefix(last, "<") {
			last = words[len(words)-2]
		}
		if named := regexp.MustCompile(`(?m)(^|[\s{,])` + regexp.QuoteMeta(last) + `:`); !named.Match(data) {
			t.Errorf("it lacks %s", r.Key)
		}
	}
}

func userSettings() string {
	var b strings.Builder
	b.WriteString("| your key | type | meaning |\n| --- | --- | --- |\n")
	for _, r := range config.UserTable() {
		if !strings.HasPrefix(r.Key, "limits.") {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Key, r.Type, r.Meaning)
		}
	}
	b.WriteString("| `limits.…` | as below | the maximum that a project may set; if its own limit is lower, that one applies |\n")
	return b.String()
}

func settings() string {
	var b strings.Builder
	b.WriteString("| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
	cell := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for _, r := range config.Table() {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", r.Key, cell.Replace(r.Type), r.Default, cell.Replace(r.Meaning))
	}
	return b.String()
}
