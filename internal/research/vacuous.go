package research

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// truth is what is known of a command's exit code before it runs.
type truth int

const (
	unknown truth = iota
	succeeds
	fails
)

func truthOf(b bool) truth {
	if b {
		return succeeds
	}
	return fails
}

func (t truth) not() truth {
	switch t {
	case succeeds:
		return fails
	case fails:
		return succeeds
	}
	return unknown
}

// Vacuous reports whether a command line proves nothing: it ends with 0 whatever the project is like, as far
// as that shows without running it. A blank one does.
func Vacuous(line string) bool {
	s := reading(line)
	return s.list("") == succeeds && s.understood() && !s.exits
}

// shell reads a command line.
type shell struct {
	tokens   []token
	broken   bool // there is something in it that this reader does not understand
	exits    bool // it may end early with another code than 0
	commands [][]token
	depth    int
}

// maxDepth is how deep brackets can stand in each other.
const maxDepth = 50

func reading(line string) *shell {
	tokens, ok := lex(line)
	return &shell{tokens: tokens, broken: !ok}
}

func (s *shell) understood() bool { return !s.broken && len(s.tokens) == 0 }

func (s *shell) next(op string) bool {
	if len(s.tokens) > 0 && s.tokens[0].op == op && op != "" {
		s.tokens = s.tokens[1:]
		return true
	}
	return false
}

func (s *shell) nextWord(word string) bool {
	if len(s.tokens) > 0 && s.tokens[0].is(word) {
		s.tokens = s.tokens[1:]
		return true
	}
	return false
}

// list reads commands up to the closing bracket, or to the end. Its exit code is that of the last one, or,
// after set -e, that of the first one that fails.
func (s *shell) list(end string) truth {
	last, all, strict, over := succeeds, succeeds, false, false
	for len(s.tokens) > 0 && !s.broken {
		if s.next(";") || s.next("\n") {
			continue
		}
		if end != "" && (s.tokens[0].op == end || s.tokens[0].is(end)) {
			break
		}
		first := len(s.commands)
		v := s.chain()
		if s.next("&") {
			v = succeeds
		}
		if !over {
			last = v
		}
		if v != succeeds {
			all = unknown
		}
		if len(s.commands) == first+1 {
			strict = strict || strictly(s.commands[first])
			over = over || s.commands[first][0].is("exit")
		}
	}
	if strict && all != succeeds {
		return unknown
	}
	return last
}

// strictly reports whether a command is set -e.
func strictly(words []token) bool {
	return words[0].is("set") && slices.ContainsFunc(words[1:], func(t token) bool {
		return t.text == "errexit" || strings.HasPrefix(t.text, "-") && strings.Contains(t.text, "e")
	})
}

// chain reads pipelines joined by && and ||, which bind alike.
func (s *shell) chain() truth {
	v := s.pipeline()
	for !s.broken {
		switch {
		case s.next("&&"):
			v = and(v, s.after())
		case s.next("||"):
			v = and(v.not(), s.after().not()).not()
		default:
			return v
		}
	}
	return v
}

// after is the pipeline behind an operator, which may stand on the next line.
func (s *shell) after() truth {
	for s.next("\n") {
	}
	return s.pipeline()
}

func and(a, b truth) truth {
	switch {
	case a == fails || b == fails:
		return fails
	case a == succeeds:
		return b
	}
	return unknown
}

// pipeline fails when one of its commands does: commands run with pipefail.
func (s *shell) pipeline() truth {
	negated := s.nextWord("!")
	v := s.command()
	for !s.broken && (s.next("|") || s.next("|&")) {
		v = and(v, s.command())
	}
	if negated {
		return v.not()
	}
	return v
}

func (s *shell) command() truth {
	for _, group := range []struct{ open, end string }{{"(", ")"}, {"{", "}"}} {
		if s.next(group.open) || s.nextWord(group.open) {
			if s.depth++; s.depth > maxDepth {
				s.broken = true
				return unknown
			}
			v := s.list(group.end)
			s.depth--
			s.broken = s.broken || !s.next(group.end) && !s.nextWord(group.end)
			return v
		}
	}
	var words []token
	for len(s.tokens) > 0 && (s.tokens[0].op == "" || len(words) > 0 && words[0].is("[[") && !words[len(words)-1].is("]]")) {
		words = append(words, s.tokens[0])
		s.tokens = s.tokens[1:]
	}
	if len(words) == 0 {
		s.broken = true
		return unknown
	}
	s.commands = append(s.commands, words)
	return s.simple(words)
}

// quiet are commands that don't fail, whatever they are given.
var quiet = []string{"true", ":", "echo", "printf", "pwd", "sleep", "set", "export", "unset", "shopt", "wait", "date", "whoami", "hostname"}

// keywords begin what this reader takes for commands and has not understood.
var keywords = []string{"if", "then", "elif", "else", "fi", "for", "do", "done", "while", "until", "case", "esac", "select", "function", "eval", "trap", "return"}

// simple tells what is known of a command without operators.
func (s *shell) simple(words []token) truth {
	for len(words) > 0 && assigns(words[0]) {
		if len(words) == 1 {
			return and(truthOf(true), fixed(words))
		}
		words = words[1:]
	}
	name, args := words[0].text, words[1:]
	if !words[0].fixed {
		return unknown
	}
	if strings.Contains(name, "/bin/") {
		name = path.Base(name)
	}
	switch {
	case slices.Contains(quiet, name):
		return succeeds
	case name == "false":
		return fails
	case name == "exit":
		zero := len(args) == 1 && args[0].text == "0"
		s.exits = s.exits || !zero
		return truthOf(zero)
	case name == "test" || name == "[" || name == "[[":
		return constant(name, args)
	case slices.Contains([]string{"command", "builtin", "exec", "env", "time", "nice", "nohup"}, name) && len(args) > 0:
		return s.simple(args)
	case (name == "sh" || name == "bash") && len(args) == 2 && strings.HasPrefix(args[0].text, "-") && strings.HasSuffix(args[0].text, "c") && args[1].fixed:
		return and(truthOf(true), vacuous(args[1].text))
	case slices.Contains(keywords, name) && words[0].plain:
		s.broken = true
	}
	return unknown
}

func vacuous(line string) truth {
	if Vacuous(line) {
		return succeeds
	}
	return unknown
}

// assigns reports whether a word is NAME=value.
func assigns(t token) bool {
	name, _, ok := strings.Cut(t.text, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") == ""
}

// fixed is succeeds when the shell puts nothing into the words.
func fixed(words []token) truth {
	if slices.ContainsFunc(words, func(t token) bool { return !t.fixed }) {
		return unknown
	}
	return succeeds
}

// constant is what a test says that does not look at anything.
func constant(name string, args []token) truth {
	if closing := map[string]string{"[": "]", "[[": "]]"}[name]; closing != "" {
		if len(args) == 0 || args[len(args)-1].text != closing {
			return unknown
		}
		args = args[:len(args)-1]
	}
	if fixed(args) != succeeds {
		return unknown
	}
	switch {
	case len(args) == 0:
		return fails
	case len(args) > 1 && args[0].is("!"):
		return constant("test", args[1:]).not()
	case len(args) == 1:
		return truthOf(args[0].text != "")
	case len(args) == 2:
		return unary(args[0].text, args[1].text)
	case len(args) == 3:
		return compared(args[0].text, args[1].text, args[2].text)
	}
	return unknown
}

func unary(op, v string) truth {
	switch op {
	case "-n":
		return truthOf(v != "")
	case "-z":
		return truthOf(v == "")
	case "-e", "-d", "-r", "-x", "-s":
		if v == "." || v == "/" || v == "./" {
			return succeeds
		}
	}
	return unknown
}

func compared(a, op, b string) truth {
	switch op {
	case "=", "==":
		return truthOf(a == b)
	case "!=":
		return truthOf(a != b)
	}
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX != nil || errY != nil {
		return unknown
	}
	switch op {
	case "-eq":
		return truthOf(x == y)
	case "-ne":
		return truthOf(x != y)
	case "-lt":
		return truthOf(x < y)
	case "-le":
		return truthOf(x <= y)
	case "-gt":
		return truthOf(x > y)
	case "-ge":
		return truthOf(x >= y)
	}
	return unknown
}
