package diffview

import (
	"path"
	"strings"
	"sync"
)

// Class is the syntactic class of a part of a line: comment, string, number, keyword, or none of these.
type Class string

const (
	plain   Class = ""
	comment Class = "comment"
	literal Class = "string"
	number  Class = "number"
	keyword Class = "keyword"
)

// language describes the syntax of a family of languages, as far as it can be recognized line by line.
type language struct {
	lineComments     []string    // these begin comments that extend to the end of the line
	blockComments    [][2]string // begin and end of comments that can have several lines
	quotes           string      // delimiters of single-line strings
	multilineStrings [][2]string // begin and end of strings that can have several lines
	numbers          bool
	ignoreCase       bool // keywords are case-insensitive
	keywords         map[string]bool
}

// lexState is what a line begins inside of: nothing, or something of a class that extends to the text end.
type lexState struct {
	end   string
	class Class
}

// lex writes the class of each byte of a line into classes, unless that is nil, and returns the state at the end of the line.
// It reads each byte once, or as often as the language has kinds of beginnings.
func (l *language) lex(in lexState, s string, classes []Class) lexState {
	mark := func(from, to int, c Class) {
		for i := from; i < to && i < len(classes); i++ {
			classes[i] = c
		}
	}
	for i := 0; i < len(s); {
		if in.end != "" {
			at := strings.Index(s[i:], in.end)
			if at < 0 {
				mark(i, len(s), in.class)
				return in
			}
			to := i + at + len(in.end)
			mark(i, to, in.class)
			i, in = to, lexState{}
			continue
		}
		if next, n := l.openingAt(s, i); n > 0 {
			mark(i, i+n, next.class)
			i += n
			if next.end == "\n" {
				mark(i, len(s), next.class)
				return lexState{}
			}
			in = next
			continue
		}
		n, c := l.token(s, i)
		mark(i, i+n, c)
		i += n
	}
	return in
}

// openingAt returns the state that begins at index i, and the number of bytes of its beginning, 0 if nothing begins there.
func (l *language) openingAt(s string, i int) (lexState, int) {
	rest := s[i:]
	for _, b := range l.blockComments {
		if strings.HasPrefix(rest, b[0]) {
			return lexState{b[1], comment}, len(b[0])
		}
	}
	for _, b := range l.lineComments {
		if strings.HasPrefix(rest, b) && (b != "#" || i == 0 || strings.IndexByte(" \t;({", s[i-1]) >= 0) {
			return lexState{"\n", comment}, len(b)
		}
	}
	for _, b := range l.multilineStrings {
		if strings.HasPrefix(rest, b[0]) {
			return lexState{b[1], literal}, len(b[0])
		}
	}
	return lexState{}, 0
}

// token returns the length and class of the string, number or word at index i.
func (l *language) token(s string, i int) (n int, c Class) {
	b := s[i]
	switch {
	case strings.IndexByte(l.quotes, b) >= 0:
		return l.stringToken(s, i)
	case isWordByte(b) && !isDigit(b):
		for n = 1; i+n < len(s) && isWordByte(s[i+n]); n++ {
		}
		text := s[i : i+n]
		if l.ignoreCase {
			text = strings.ToLower(text)
		}
		if l.keywords[text] {
			return n, keyword
		}
		return n, plain
	case isDigit(b):
		for n = 1; i+n < len(s) && (isWordByte(s[i+n]) || s[i+n] == '.'); n++ {
		}
		if l.numbers {
			return n, number
		}
		return n, plain
	}
	return 1, plain
}

// stringToken is token for a single-line string. An apostrophe begins none if it is inside a word or nothing closes it.
func (l *language) stringToken(s string, i int) (n int, c Class) {
	quote := s[i]
	if quote == '\'' && i > 0 && isWordByte(s[i-1]) {
		return 1, plain
	}
	for n = 1; i+n < len(s); n++ {
		switch s[i+n] {
		case '\\':
			n++
		case quote:
			return n + 1, literal
		}
	}
	if quote == '\'' {
		return 1, plain
	}
	return len(s) - i, literal
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func isWordByte(b byte) bool {
	return b == '_' || isDigit(b) || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// languageOf returns the language of a file by its name, nil if the file is not highlighted.
func languageOf(name string) *language {
	base := path.Base(name)
	end := strings.ToLower(strings.TrimPrefix(path.Ext(base), "."))
	switch {
	case base == "Makefile" || base == "Dockerfile" || base == "Containerfile" || strings.HasPrefix(base, ".") && strings.HasSuffix(base, "rc"):
		end = "sh"
	case base == "go.mod":
		end = "go"
	}
	return languages()[end]
}

// languages returns the supported languages by file extension.
var languages = sync.OnceValue(func() map[string]*language {
	known := map[string]*language{}
	for _, l := range []struct {
		ends     string
		is       language
		keywords string
	}{
		{"go", cLike(`"'`, [2]string{"`", "`"}), "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false iota"},
		{"js jsx mjs cjs ts tsx mts cts", cLike(`"'`, [2]string{"`", "`"}), "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in instanceof interface keyof let namespace new null number of private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined var void while yield"},
		{"c h cc cpp cxx hpp hh cs java kt kts swift scala dart php rs zig proto groovy gradle m mm", cLike(`"'`), "abstract as assert async auto await base bool boolean break byte case catch char class const continue crate data def default delete do double dyn else enum explicit export extends extern false final finally float fn for foreach friend fun func goto guard if impl implements import in include inline instanceof int interface internal is let lock long loop match message mod move mut mutable namespace native new null nullptr object operator out override package private protected protocol pub public ref repeated rpc readonly required return sealed self service short signed sizeof static str string struct super switch synchronized syntax template this throw throws trait true try type typedef typename union unsafe unsigned use using val var virtual void volatile when where while yield define ifdef ifndef endif pragma"},
		{"css scss less", language{lineComments: []string{"//"}, blockComments: [][2]string{{"/*", "*/"}}, quotes: `"'`, numbers: true}, "important media supports import keyframes"},
		{"py pyi", language{lineComments: []string{"#"}, quotes: `"'`, multilineStrings: [][2]string{{`"""`, `"""`}, {"'''", "'''"}}, numbers: true}, "and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield"},
		{"rb rake gemspec", language{lineComments: []string{"#"}, quotes: `"'`, numbers: true}, "alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require"},
		{"sh bash zsh fish mk", language{lineComments: []string{"#"}, quotes: `"'`}, "case do done elif else esac export fi for function if in local return then until while set unset exit exec source"},
		{"yaml yml toml ini cfg conf properties tf hcl", language{lineComments: []string{"#"}, quotes: `"'`, numbers: true}, "true false null yes no on off"},
		{"json jsonc json5 jsonl", language{lineComments: []string{"//"}, quotes: `"`, numbers: true}, "true false null"},
		{"sql", language{lineComments: []string{"--"}, blockComments: [][2]string{{"/*", "*/"}}, quotes: `'"`, numbers: true, ignoreCase: true}, "add alter and as asc between by case check column constraint create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references right select set table then union unique update values view when where with"},
		{"lua", language{lineComments: []string{"--"}, blockComments: [][2]string{{"--[[", "]]"}}, quotes: `"'`, numbers: true}, "and break do else elseif end false for function goto if in local nil not or repeat return then true until while"},
		{"html htm xml svg vue svelte xhtml tmpl", language{blockComments: [][2]string{{"<!--", "-->"}}, quotes: `"`}, ""},
	} {
		is := l.is
		is.keywords = map[string]bool{}
		for _, k := range strings.Fields(l.keywords) {
			is.keywords[k] = true
		}
		for _, end := range strings.Fields(l.ends) {
			known[end] = &is
		}
	}
	return known
})

// cLike returns a language with comments as in C.
func cLike(quotes string, multi ...[2]string) language {
	return language{lineComments: []string{"//"}, blockComments: [][2]string{{"/*", "*/"}}, quotes: quotes, multilineStrings: multi, numbers: true}
}
