package research

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// token is a word of the shell.
type token struct {
	text     string // without quotes
	fixed    bool   // the shell expands nothing in the word
	unquoted bool   // nothing in the word is quoted
}

func (t token) is(word string) bool { return t.unquoted && t.text == word }

// shell reads a command line.
type shell struct {
	line           string
	notUnderstood  bool // it contains something that this reader does not understand
	mayExitNonzero bool // it may end early with an exit code other than 0
	commands       [][]token
}

// maxLine is the maximum length of a line that is parsed, in bytes: the parser recurses into nested brackets.
const maxLine = 16 << 10

// parseShell parses a command line, and returns what is known about its exit code.
func parseShell(line string) (*shell, outcome) {
	s := &shell{line: line, notUnderstood: len(line) > maxLine}
	if s.notUnderstood {
		return s, unknown
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		s.notUnderstood = true
		return s, unknown
	}
	return s, s.list(file.Stmts)
}

// list reads a list of commands. Its exit code is that of the last one, or, after set -e, that of the first one that fails.
func (s *shell) list(stmts []*syntax.Stmt) outcome {
	last, all, strict, over := succeeds, succeeds, false, false
	for _, stmt := range stmts {
		first := len(s.commands)
		v := s.statement(stmt)
		if !over {
			last = v
		}
		if v != succeeds {
			all = unknown
		}
		if len(s.commands) == first+1 {
			strict = strict || isSetErrexit(s.commands[first])
			over = over || s.commands[first][0].is("exit")
		}
	}
	if strict && all != succeeds {
		return unknown
	}
	return last
}

// isSetErrexit reports whether a command is set -e.
func isSetErrexit(words []token) bool {
	return words[0].is("set") && slices.ContainsFunc(words[1:], func(t token) bool {
		return t.text == "errexit" || strings.HasPrefix(t.text, "-") && strings.Contains(t.text, "e")
	})
}

func (s *shell) statement(stmt *syntax.Stmt) outcome {
	v := s.command(stmt.Cmd)
	switch {
	case stmt.Background:
		return succeeds
	case stmt.Negated:
		return v.negate()
	}
	return v
}

func (s *shell) command(c syntax.Command) outcome {
	switch c := c.(type) {
	case nil: // only redirections
		return succeeds
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			return s.assignments(c.Assigns)
		}
		return s.addCommand(s.tokens(c.Args))
	case *syntax.BinaryCmd:
		x, y := s.statement(c.X), s.statement(c.Y)
		if c.Op == syntax.OrStmt {
			return and(x.negate(), y.negate()).negate()
		}
		return and(x, y) // also for a pipe: commands run with pipefail
	case *syntax.Subshell:
		return s.list(c.Stmts)
	case *syntax.Block:
		return s.list(c.Stmts)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return s.statement(c.Stmt)
		}
	case *syntax.DeclClause:
		return s.addCommand([]token{fixedToken(c.Variant.Value)})
	case *syntax.TestClause:
		return s.addCommand(slices.Concat([]token{fixedToken("[[")}, s.testTokens(c.X), []token{fixedToken("]]")}))
	}
	s.notUnderstood = true
	return unknown
}

func (s *shell) addCommand(words []token) outcome {
	s.commands = append(s.commands, words)
	return s.simpleCommand(words)
}

func (s *shell) assignments(list []*syntax.Assign) outcome {
	for _, a := range list {
		if a.Array != nil || a.Value != nil && !s.token(a.Value).fixed {
			return unknown
		}
	}
	return succeeds
}

// testTokens returns the words between [[ and ]].
func (s *shell) testTokens(x syntax.TestExpr) []token {
	switch x := x.(type) {
	case *syntax.Word:
		return []token{s.token(x)}
	case *syntax.UnaryTest:
		return append([]token{fixedToken(x.Op.String())}, s.testTokens(x.X)...)
	case *syntax.BinaryTest:
		return slices.Concat(s.testTokens(x.X), []token{fixedToken(x.Op.String())}, s.testTokens(x.Y))
	}
	return []token{{}} // brackets
}

func fixedToken(text string) token { return token{text, true, true} }

func (s *shell) tokens(words []*syntax.Word) (list []token) {
	for _, w := range words {
		list = append(list, s.token(w))
	}
	return list
}

func (s *shell) token(w *syntax.Word) token {
	t := fixedToken("")
	for _, part := range w.Parts {
		from, to, fixed := int(part.Pos().Offset()), int(part.End().Offset()), false
		switch p := part.(type) {
		case *syntax.Lit:
			fixed = !strings.ContainsAny(p.Value, `*?[\`)
		case *syntax.SglQuoted:
			fixed, t.unquoted = !p.Dollar, false
			from, to = from+1, to-1
		case *syntax.DblQuoted:
			fixed, t.unquoted = !p.Dollar && !strings.ContainsAny(s.line[from:to], "$`\\"), false
			from, to = from+1, to-1
		}
		t.text += s.line[from:to]
		t.fixed = t.fixed && fixed
	}
	if t.unquoted && (t.text == "[" || t.text == "[[") {
		t.fixed = true
	}
	return t
}
