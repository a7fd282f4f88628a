package research

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// command is a line of a verification plan. Kinds are in the order they are run in.
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

// commandsOf are the commands of one block: the lines of a code block, the code spans of bullets, or
// what stands behind a bullet's label.
func commandsOf(n ast.Node, src []byte) (list []command) {
	switch n.(type) {
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		for i := range n.Lines().Len() {
			seg := n.Lines().At(i)
			list = add(list, "", string(seg.Value(src)))
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
				list = add(list, name, c)
			}
		} else if name != "" {
			list = add(list, name, it.text[len(name)+1:])
		} else {
			list = add(list, "", it.text)
		}
	}
	return list
}

func add(list []command, name, line string) []command {
	line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
	if low := strings.ToLower(strings.Trim(line, "*_. ")); line == "" || strings.HasPrefix(line, "#") || low == "none found" || low == "none" {
		return list
	}
	return append(list, command{kindOf(name + " " + line), line})
}

func kindOf(s string) int {
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

// builtins are words of the shell that are no programs.
var builtins = []string{"cd", "test", "[", "!", "set", "export", "exit", "command", "if", "then", "fi", "for", "do", "done", "while", "{", "}", "source", "."}

// Project is what commands are checked against.
type Project struct {
	Root     string
	LookPath func(program string) error // exec.LookPath, in the environment that commands run with
}

// Missing says why a command can't be one of this project's checks, "" when it can: each program, make
// target and package script in it exists, and it can fail.
func (p Project) Missing(line string) string {
	if vacuous(line) {
		return "it can't fail"
	}
	for _, part := range strings.FieldsFunc(strings.NewReplacer("&&", "\n", "||", "\n", ";", "\n", "|", "\n").Replace(line), func(r rune) bool { return r == '\n' }) {
		words := strings.Fields(part)
		for len(words) > 0 && strings.Contains(words[0], "=") {
			words = words[1:]
		}
		if len(words) == 0 || slices.Contains(builtins, words[0]) {
			continue
		}
		if why := p.program(words); why != "" {
			return why
		}
	}
	return ""
}

// vacuous reports whether a command is none: it always ends with 0.
func vacuous(line string) bool {
	line = strings.TrimSpace(line)
	first, _, _ := strings.Cut(line, " ")
	plain := !strings.ContainsAny(line, "|&;")
	switch {
	case line == "" || line == ":" || line == "true" || line == "exit 0":
		return true
	case (first == "echo" || first == "printf" || first == ":") && plain:
		return true
	}
	return strings.HasSuffix(line, "|| true") || strings.HasSuffix(line, "|| :") || strings.HasSuffix(line, "; true")
}

// program says what is missing of a simple command.
func (p Project) program(words []string) string {
	name := words[0]
	if strings.Contains(name, "/") {
		if st, err := os.Stat(filepath.Join(p.Root, filepath.FromSlash(name))); err != nil || st.IsDir() {
			return "there is no " + name
		}
		return ""
	}
	if err := p.LookPath(name); err != nil {
		return "the program " + name + " is not installed"
	}
	switch name {
	case "make":
		return p.makeTargets(words[1:])
	case "npm", "pnpm", "yarn", "bun":
		return p.script(words[1:])
	}
	return ""
}

func (p Project) makeTargets(args []string) string {
	text := ""
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		if data, err := os.ReadFile(filepath.Join(p.Root, name)); err == nil {
			text = "\n" + string(data)
			break
		}
	}
	if text == "" {
		return "there is no Makefile"
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") {
			continue
		}
		if !strings.Contains(text, "\n"+arg+":") && !strings.Contains(text, "\n"+arg+" ") {
			return "the Makefile has no target " + arg
		}
	}
	return ""
}

// script says whether package.json lacks the script that `npm run X` or `npm X` asks for.
func (p Project) script(args []string) string {
	data, err := os.ReadFile(filepath.Join(p.Root, "package.json"))
	if err != nil {
		return "there is no package.json"
	}
	name := ""
	switch {
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
