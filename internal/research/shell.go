package research

import (
	"slices"
	"strings"
)

// token is an operator of the shell, or a word.
type token struct {
	op    string // "" for a word
	text  string // of a word, without its quotes
	fixed bool   // nothing in the word is put in by the shell
	plain bool   // no quote stood in it
}

func (t token) is(word string) bool { return t.op == "" && t.plain && t.text == word }

// operators of the shell, longer ones first.
var operators = []string{"&&", "||", "|&", ";;", ";", "&", "|", "(", ")", "\n"}

// lex takes a command line apart. It reports false for what it does not understand.
func lex(line string) (tokens []token, ok bool) {
	for rest := line; rest != ""; {
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\r':
			rest = rest[1:]
		case c == '#':
			_, after, more := strings.Cut(rest, "\n")
			if rest = after; more {
				rest = "\n" + rest
			}
		case strings.HasPrefix(rest, "\\\n"):
			rest = rest[2:]
		case redirects(rest) > 0:
			rest = strings.TrimLeft(rest[redirects(rest):], " \t")
			if strings.HasPrefix(rest, "<") || strings.HasPrefix(rest, "(") { // a here document, a process
				return nil, false
			}
			if _, rest, ok = word(rest); !ok {
				return nil, false
			}
		default:
			if i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(rest, op) }); i >= 0 {
				tokens = append(tokens, token{op: operators[i]})
				rest = rest[len(operators[i]):]
				continue
			}
			var t token
			if t, rest, ok = word(rest); !ok {
				return nil, false
			}
			tokens = append(tokens, t)
		}
	}
	return tokens, true
}

// redirects is the length of the redirection that s begins with: >, 2>>, &>, 2>&, <.
func redirects(s string) int {
	i := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if strings.HasPrefix(s, "&>") {
		i = 1
	}
	if i == len(s) || s[i] != '<' && s[i] != '>' {
		return 0
	}
	if i++; i < len(s) && s[i-1] == '>' && strings.ContainsRune(">&|", rune(s[i])) {
		i++
	}
	return i
}

// word reads one word.
func word(s string) (t token, rest string, ok bool) {
	t.fixed, t.plain = true, true
	var b strings.Builder
	i := 0
	for i < len(s) && !strings.ContainsRune(" \t\r\n;&|()<>", rune(s[i])) {
		n := 1
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			b.WriteByte(s[i+1])
			n, t.plain = 2, false
		case c == '\'' || c == '"' || c == '`' || strings.HasPrefix(s[i:], "$("):
			if n = quoted(s[i:]); n == 0 {
				return t, "", false
			}
			t.plain = false
			if c == '\'' || c == '"' {
				b.WriteString(s[i+1 : i+n-1])
			}
			t.fixed = t.fixed && (c == '\'' || c == '"' && !strings.ContainsAny(s[i:i+n], "$`\\"))
		default:
			t.fixed = t.fixed && !strings.ContainsRune("$*?[", rune(c))
			b.WriteByte(c)
		}
		i += n
	}
	if i == 1 && s[0] == '[' || t.plain && s[:i] == "[[" {
		t.fixed = true
	}
	t.text = b.String()
	return t, s[i:], i > 0
}

// quoted is the length of what is quoted at the start of s, or 0 when the quote does not end.
func quoted(s string) int {
	if s[0] == '$' {
		return substitution(s)
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i + 1
		case s[i] == '\\' && s[0] != '\'':
			i++
		case s[0] == '"' && strings.HasPrefix(s[i:], "$("):
			n := substitution(s[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}

// substitution is the length of the $(…) at the start of s, or 0 when it does not end.
func substitution(s string) int {
	depth := 0
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		case '\\':
			i++
		case '\'', '"', '`':
			n := quoted(s[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}
