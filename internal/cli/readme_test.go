package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// repository returns the root of this project.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// pages returns README.md and all pages of docs, by their path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root, list := repository(t), map[string]string{}
	take := func(name string) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		list[name] = string(text)
	}
	take("README.md")
	err := fs.WalkDir(os.DirFS(root), "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" {
			take(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// tableHolds compares the table of a page that begins with head with the rows of the code. TRELLIS_UPDATE_DOCS=1 writes it.
func tableHolds(t *testing.T, page, head, rows string) {
	t.Helper()
	path := filepath.Join(repository(t), page)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	at := strings.Index(text, head+"\n")
	if at < 0 {
		t.Fatalf("%s has no table %s", page, head)
	}
	at += len(head) + 1
	end := at
	for strings.HasPrefix(text[end:], "|") {
		line, _, _ := strings.Cut(text[end:], "\n")
		end += len(line) + 1
	}
	want := "|" + strings.Repeat(" --- |", strings.Count(head, "|")-1) + "\n" + rows
	got := text[at:end]
	if got == want {
		return
	}
	if os.Getenv("TRELLIS_UPDATE_DOCS") == "" {
		t.Errorf("the table %s of %s is\n%s\nand the code says\n%s", head, page, got, want)
	} else if err := os.WriteFile(path, []byte(text[:at]+want+text[end:]), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestExitCodesAreInReadme(t *testing.T) {
	var rows strings.Builder
	for _, e := range command.Exits {
		fmt.Fprintf(&rows, "| %d | %s |\n", e.Code, e.Meaning)
	}
	tableHolds(t, "README.md", "| exit | meaning |", rows.String())
}

func TestFailureCodesAreInReadme(t *testing.T) {
	var rows strings.Builder
	cell := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for _, c := range trellis.Codes {
		retried := ""
		if c.Retried {
			retried = "yes"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", c.Code, cell.Replace(c.Meaning), cell.Replace(c.Todo), retried)
	}
	tableHolds(t, "README.md", "| code | meaning | what to do | retried |", rows.String())
}

// The table of statuses is written by hand. Its rows together allow what the code allows.
func TestStatusesAreDocumented(t *testing.T) {
	_, table, _ := strings.Cut(pages(t)["docs/reference/formats.md"], "| from | to | by |\n")
	word := regexp.MustCompile("`([a-z_]+)`")
	got := map[[2]trellis.Status]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		for _, from := range word.FindAllStringSubmatch(cells[1], -1) {
			for _, to := range word.FindAllStringSubmatch(cells[2], -1) {
				got[[2]trellis.Status{trellis.Status(from[1]), trellis.Status(to[1])}] = true
			}
		}
	}
	for _, from := range trellis.Statuses {
		for _, to := range trellis.Statuses {
			if allowed := trellis.Move(from, to) == nil; from != to && allowed != got[[2]trellis.Status{from, to}] {
				t.Errorf("from %s to %s: allowed is %t, docs/reference/formats.md says %t", from, to, allowed, !allowed)
			}
		}
	}
	for move := range got {
		if !slices.Contains(trellis.Statuses, move[0]) || !slices.Contains(trellis.Statuses, move[1]) {
			t.Errorf("docs/reference/formats.md has a status that there is not: %v", move)
		}
	}
}

// Links between pages, and to files of the repository, have a target that exists.
func TestLinksOfDocs(t *testing.T) {
	link, all := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`), pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := page
			if m[1] != "" {
				target = path.Join(path.Dir(page), m[1])
			}
			if _, err := os.Stat(filepath.Join(repository(t), target)); err != nil {
				t.Errorf("%s: link to %s: %v", page, m[1], err)
			} else if to, ok := all[target]; ok && m[2] != "" && !slices.Contains(anchors(to), m[2]) {
				t.Errorf("%s: link to %s: it has no heading #%s", page, target, m[2])
			}
		}
	}
}

// anchors returns the names of the headings of a page, as GitHub forms them.
func anchors(text string) (list []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	block := false
	for line := range strings.Lines(text) {
		if block = block != strings.HasPrefix(line, "```"); block {
			continue
		}
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			list = append(list, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-"))
		}
	}
	return list
}

// README.md stays short enough to be read to its end.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(pages(t)["README.md"], "\n"); n >= 200 {
		t.Errorf("README.md has %d lines: what is more than the first hour belongs into docs", n)
	}
}

// Command lines in blocks of the pages, and within sentences of README.md, have a command and flags that exist.
func TestCommandLinesOfDocs(t *testing.T) {
	shown, inline := 0, regexp.MustCompile("`(trellis [a-z][^`]*)`")
	check := func(page, line string) {
		shown++
		if _, err := commandline.Arrange(program(new(command.Console)).Root(), words(line)[1:]); err != nil {
			t.Errorf("%s: %s: %v", page, line, err)
		}
	}
	for page, text := range pages(t) {
		block := false
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			block = block != strings.HasPrefix(line, "```")
			line = strings.TrimPrefix(line, "$ ")
			if block && strings.HasPrefix(line, "trellis ") {
				check(page, line)
			}
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				if !block && page == "README.md" {
					check(page, m[1])
				}
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d command lines were found", shown)
	}
}

// words splits a command line as a shell does, up to a comment or a pipe.
func words(line string) (list []string) {
	part := regexp.MustCompile(`^\s*((?:'[^']*'|"[^"]*"|[^\s'"#|>&])+)`)
	for {
		m := part.FindStringSubmatch(line)
		if m == nil {
			return list
		}
		list = append(list, strings.NewReplacer("'", "", `"`, "").Replace(m[1]))
		line = line[len(m[0]):]
	}
}
