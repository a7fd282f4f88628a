package research

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/yuin/goldmark/ast"
)

// command is one command of a verification plan. Kinds are in the order in which they are run.
type command struct {
	kind int
	line string
}

const (
	kindLint = iota
	kindTest
	kindOther
	kindBuild
)

// commandsOf returns the commands of one block: the lines of a code block, the code spans of bullets, or the text after a bullet's
// label.
func commandsOf(n ast.Node, src []byte) (list []command) {
	switch n.(type) {
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		for i := range n.Lines().Len() {
			seg := n.Lines().At(i)
			list = addCommand(list, "", string(seg.Value(src)))
		}
		return list
	}
	for _, it := range items(n, src) {
		name := ""
		if head, _, ok := strings.Cut(it.text, ":"); ok && len(strings.Fields(head)) <= 2 {
			name = head
		}
		if len(it.code) > 0 {
			for _, c := range it.code {
				list = addCommand(list, name, c)
			}
		} else if name != "" {
			list = addCommand(list, name, it.text[len(name)+1:])
		} else {
			list = addCommand(list, "", it.text)
		}
	}
	return list
}

func addCommand(list []command, name, line string) []command {
	line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
	if low := strings.ToLower(strings.Trim(line, "*_. ")); line == "" || strings.HasPrefix(line, "#") || low == "none found" || low == "none" {
		return list
	}
	return append(list, command{commandKind(name + " " + line), line})
}

// Kind returns what a command proves, judging by its words: lint, test or build; test if they don't tell.
func Kind(command string) string {
	switch commandKind(command) {
	case kindLint:
		return "lint"
	case kindBuild:
		return "build"
	}
	return "test"
}

func commandKind(s string) int {
	s = strings.ToLower(s)
	for _, k := range []struct {
		kind  int
		words []string
	}{{kindLint, []string{"lint", "vet", "fmt", "format", "typecheck", "tsc", "mypy", "clippy"}}, {kindTest, []string{"test", "check", "spec"}}, {kindBuild, []string{"build", "compile"}}} {
		for _, w := range k.words {
			if strings.Contains(s, w) {
				return k.kind
			}
		}
	}
	return kindOther
}

// isBuiltin reports whether a word belongs to the shell, and is not a program.
func isBuiltin(word string) bool {
	more := []string{"cd", "test", "[", "[[", "exit", "false", "command", "builtin", "exec", "time", "source", ".", "read", "local", "shift", "type", "ulimit", "umask"}
	return slices.Contains(more, word) || slices.Contains(neverFailing, word) || slices.Contains(keywords, word)
}

// Project is what commands are checked against.
type Project struct {
	Root     string
	LookPath func(program string) error // exec.LookPath, in the environment in which commands run
}

// Missing says why a command can't be one of this project's checks, "" if it can: each program, make target and package script in
// it exists, and it can fail.
func (p Project) Missing(line string) string {
	if Vacuous(line) {
		return "it can't fail"
	}
	s, _ := parseShell(line)
	if s.notUnderstood {
		return p.missingFirstProgram(line)
	}
	for _, words := range s.commands {
		switch {
		case !words[0].fixed || strings.Contains(words[0].text, "{{"):
		case words[0].is("cd") && len(words) == 2 && words[1].fixed && filepath.IsLocal(words[1].text):
			p.Root = filepath.Join(p.Root, filepath.FromSlash(words[1].text))
		case words[0].is("cd"):
			return "" // the folder is not known
		case !isBuiltin(words[0].text):
			if why := p.missingProgram(tokenTexts(words)); why != "" {
				return why
			}
		}
	}
	return ""
}

// missingFirstProgram checks only the beginning of a line, which may be prose.
func (p Project) missingFirstProgram(line string) string {
	words := strings.Fields(line)
	for len(words) > 0 && isAssignment(token{text: words[0]}) {
		words = words[1:]
	}
	if len(words) == 0 || isBuiltin(words[0]) || strings.ContainsAny(words[0], "$`({\"") {
		return ""
	}
	return p.missingProgram(words[:1])
}

func tokenTexts(words []token) (list []string) {
	for _, w := range words {
		list = append(list, w.text)
	}
	return list
}

// missingProgram says what a simple command lacks, "" for nothing.
func (p Project) missingProgram(words []string) string {
	name := words[0]
	if strings.Contains(name, "/") {
		file := filepath.FromSlash(name)
		if !filepath.IsAbs(file) {
			file = filepath.Join(p.Root, file)
		}
		if st, err := os.Stat(file); err != nil || st.IsDir() {
			return "there is no " + name
		}
		return ""
	}
	if err := p.LookPath(name); err != nil {
		return "the program " + name + " is not installed"
	}
	switch name {
	case "make":
		return p.missingTarget(words[1:])
	case "npm", "pnpm", "yarn", "bun":
		return p.missingScript(words[1:])
	}
	return ""
}

func (p Project) missingTarget(args []string) string {
	text := ""
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if data, err := durable.ReadBelow(p.Root, name, durable.MaxRecords); err == nil {
			text = "\n" + string(data)
			break
		}
	}
	if text == "" {
		return "there is no Makefile"
	}
	for i, arg := range args {
		if arg == "-C" || arg == "-f" || strings.HasPrefix(arg, "--directory") || strings.HasPrefix(arg, "--file") {
			return "" // it uses another Makefile
		}
		if strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") || i > 0 && args[i-1] == "-j" {
			continue
		}
		if !strings.Contains(text, "\n"+arg+":") && !strings.Contains(text, "\n"+arg+" ") {
			return "the Makefile has no target " + arg
		}
	}
	return ""
}

// skipsScriptCheck reports whether an argument makes npm look for the script in packages of the workspace, or tolerate its absence.
func skipsScriptCheck(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return slices.Contains([]string{"--workspaces", "--workspace", "-ws", "-w", "--if-present"}, name)
}

// missingScript says whether package.json lacks the script that `npm run X` or `npm X` asks for.
func (p Project) missingScript(args []string) string {
	data, err := durable.ReadBelow(p.Root, "package.json", durable.MaxRecords)
	if err != nil {
		return "there is no package.json"
	}
	name := ""
	switch {
	case slices.ContainsFunc(args, skipsScriptCheck):
		return ""
	case len(args) > 1 && (args[0] == "run" || args[0] == "run-script"):
		name = args[1]
	case len(args) > 0 && (args[0] == "test" || args[0] == "start"):
		name = args[0]
	default:
		return ""
	}
	var pkg struct{ Scripts map[string]string }
	if err := json.Unmarshal(data, &pkg); err != nil {
		return "package.json is not valid JSON"
	}
	if _, ok := pkg.Scripts[name]; !ok {
		return "package.json has no script " + name
	}
	return ""
}
