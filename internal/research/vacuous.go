package research

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// outcome is what is known about a command's exit code before it runs.
type outcome int

const (
	unknown outcome = iota
	succeeds
	fails
)

func outcomeOf(b bool) outcome {
	if b {
		return succeeds
	}
	return fails
}

func (t outcome) negate() outcome {
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
	s, v := parseShell(line)
	return v == succeeds && !s.notUnderstood && !s.mayExitNonzero
}

func and(a, b outcome) outcome {
	switch {
	case a == fails || b == fails:
		return fails
	case a == succeeds:
		return b
	}
	return unknown
}

// neverFailing are commands that never fail, whatever their arguments are.
var neverFailing = []string{"true", ":", "echo", "printf", "pwd", "sleep", "set", "export", "unset", "shopt", "wait", "date", "whoami", "hostname"}

// keywords are words of the shell that this reader takes for commands, but does not understand.
var keywords = []string{"if", "then", "elif", "else", "fi", "for", "do", "done", "while", "until", "case", "esac", "select", "function", "eval", "trap", "return"}

// simpleCommand returns what is known about the exit code of a command without operators.
func (s *shell) simpleCommand(words []token) outcome {
	for len(words) > 0 && isAssignment(words[0]) {
		if len(words) == 1 {
			return fixedOutcome(words)
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
	case slices.Contains(neverFailing, name):
		return succeeds
	case name == "false":
		return fails
	case name == "exit":
		zero := len(args) == 1 && args[0].text == "0"
		s.mayExitNonzero = s.mayExitNonzero || !zero
		return outcomeOf(zero)
	case name == "test" || name == "[" || name == "[[":
		return testOutcome(name, args)
	case slices.Contains([]string{"command", "builtin", "exec", "env", "time", "nice", "nohup"}, name) && len(args) > 0:
		return s.simpleCommand(args)
	case (name == "sh" || name == "bash") && len(args) == 2 && strings.HasPrefix(args[0].text, "-") && strings.HasSuffix(args[0].text, "c") && args[1].fixed:
		if Vacuous(args[1].text) {
			return succeeds
		}
	case slices.Contains(keywords, name) && words[0].unquoted:
		s.notUnderstood = true
	}
	return unknown
}

// isAssignment reports whether a word is NAME=value.
func isAssignment(t token) bool {
	name, _, ok := strings.Cut(t.text, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") == ""
}

// fixedOutcome returns succeeds if the shell expands nothing in the words, and otherwise unknown.
func fixedOutcome(words []token) outcome {
	if slices.ContainsFunc(words, func(t token) bool { return !t.fixed }) {
		return unknown
	}
	return succeeds
}

// testOutcome returns the result of a test that depends only on its arguments.
func testOutcome(name string, args []token) outcome {
	if closing := map[string]string{"[": "]", "[[": "]]"}[name]; closing != "" {
		if len(args) == 0 || args[len(args)-1].text != closing {
			return unknown
		}
		args = args[:len(args)-1]
	}
	if fixedOutcome(args) != succeeds {
		return unknown
	}
	switch {
	case len(args) == 0:
		return fails
	case len(args) > 1 && args[0].is("!"):
		return testOutcome("test", args[1:]).negate()
	case len(args) == 1:
		return outcomeOf(args[0].text != "")
	case len(args) == 2:
		return unaryOutcome(args[0].text, args[1].text)
	case len(args) == 3:
		return comparisonOutcome(args[0].text, args[1].text, args[2].text)
	}
	return unknown
}

func unaryOutcome(op, v string) outcome {
	switch op {
	case "-n":
		return outcomeOf(v != "")
	case "-z":
		return outcomeOf(v == "")
	case "-e", "-d", "-r", "-x", "-s":
		if v == "." || v == "/" || v == "./" {
			return succeeds
		}
	}
	return unknown
}

func comparisonOutcome(a, op, b string) outcome {
	switch op {
	case "=", "==":
		return outcomeOf(a == b)
	case "!=":
		return outcomeOf(a != b)
	}
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	if errX != nil || errY != nil {
		return unknown
	}
	switch op {
	case "-eq":
		return outcomeOf(x == y)
	case "-ne":
		return outcomeOf(x != y)
	case "-lt":
		return outcomeOf(x < y)
	case "-le":
		return outcomeOf(x <= y)
	case "-gt":
		return outcomeOf(x > y)
	case "-ge":
		return outcomeOf(x >= y)
	}
	return unknown
}
