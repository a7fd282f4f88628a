package research

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// truth is what is known about a command's exit code before it runs.
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

// Vacuous reports whether a command line proves nothing: it exits with 0 whatever the project is like, as far as that can be known
// without running it. A blank line proves nothing.
func Vacuous(line string) bool {
	s, v := reading(line)
	return v == succeeds && !s.broken && !s.exits
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

// quiet are commands that never fail, whatever their arguments are.
var quiet = []string{"true", ":", "echo", "printf", "pwd", "sleep", "set", "export", "unset", "shopt", "wait", "date", "whoami", "hostname"}

// keywords are words of the shell that this reader takes for commands, but does not understand.
var keywords = []string{"if", "then", "elif", "else", "fi", "for", "do", "done", "while", "until", "case", "esac", "select", "function", "eval", "trap", "return"}

// simple returns what is known about the exit code of a command without operators.
func (s *shell) simple(words []token) truth {
	for len(words) > 0 && assigns(words[0]) {
		if len(words) == 1 {
			return fixed(words)
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
		if Vacuous(args[1].text) {
			return succeeds
		}
	case slices.Contains(keywords, name) && words[0].plain:
		s.broken = true
	}
	return unknown
}

// assigns reports whether a word is NAME=value.
func assigns(t token) bool {
	name, _, ok := strings.Cut(t.text, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") == ""
}

// fixed returns succeeds if the shell expands nothing in the words, and otherwise unknown.
func fixed(words []token) truth {
	if slices.ContainsFunc(words, func(t token) bool { return !t.fixed }) {
		return unknown
	}
	return succeeds
}

// constant returns the result of a test that depends only on its arguments.
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
