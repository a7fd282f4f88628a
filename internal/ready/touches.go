package ready

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Overlap reports whether a glob of a, which it returns, may match a path that a glob of b matches too. The globs are those
// of touches, with *, **, ?, [a-z] and {a,b}; a path without any of these is a file, or a folder with everything in it. If
// Overlap is not sure, it reports an overlap.
func Overlap(a, b []string) (glob string, found bool) {
	for _, x := range a {
		for _, y := range b {
			if overlap(x, y) {
				return x, true
			}
		}
	}
	return "", false
}

func overlap(a, b string) bool {
	xs, sure := alternatives(a)
	ys, also := alternatives(b)
	if !sure || !also {
		return true
	}
	for _, x := range xs {
		for _, y := range ys {
			if intersect(segments(x), segments(y), paths) {
				return true
			}
		}
	}
	return false
}

// Limits for the alternatives of a glob, and for its length: people write fewer and shorter ones.
const (
	mostAlternatives = 64
	mostBytes        = 1024
)

// alternatives returns the globs without braces that a glob stands for. sure is false if the glob is odd, or too large.
func alternatives(glob string) (list []string, sure bool) {
	if len(glob) > mostBytes || !utf8.ValidString(glob) {
		return nil, false
	}
	list = []string{glob}
	for i := 0; i < len(list); {
		before, options, after, sure := braces(list[i])
		if !sure || len(list)+len(options) > mostAlternatives {
			return nil, false
		}
		if options == nil {
			i++
			continue
		}
		list = append(list[:i], list[i+1:]...)
		for _, o := range options {
			list = append(list, before+o+after)
		}
	}
	return list, true
}

// braces splits a glob around its first {a,b}, with nested ones in options. Without any {a,b}, options is nil.
func braces(glob string) (before string, options []string, after string, sure bool) {
	depth, begin, from := 0, 0, 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '\\' || c == '[' && strings.IndexByte(glob[i:], ']') < 0:
			return "", nil, "", false
		case c == '[':
			i += class(glob[i:]) - 1
		case c == '{':
			if depth++; depth == 1 {
				begin, from = i, i+1
			}
		case c == ',' && depth == 1:
			options, from = append(options, glob[from:i]), i+1
		case c == '}' && depth == 0:
			return "", nil, "", false
		case c == '}':
			if depth--; depth == 0 {
				return glob[:begin], append(options, glob[from:i]), glob[i+1:], true
			}
		}
	}
	return glob, nil, "", depth == 0
}

// class returns the length of the [a-z] that text begins with. A first ] belongs to it.
func class(text string) int {
	skip := 1
	for skip < len(text)-1 && strings.IndexByte("!^]", text[skip]) >= 0 {
		skip++
	}
	if end := strings.IndexByte(text[skip:], ']'); end >= 0 {
		return skip + end + 1
	}
	return len(text)
}

// segments returns the parts of a glob without braces. A glob that ends in a plain name may be a folder.
func segments(glob string) []string {
	parts := slices.DeleteFunc(strings.Split(glob, "/"), func(s string) bool { return s == "" || s == "." })
	if n := len(parts); n == 0 || !strings.ContainsAny(parts[n-1], "*?[") {
		parts = append(parts, "**")
	}
	return parts
}

// kind says how two patterns are compared item by item: many reports whether an item stands for any number of items, same
// whether two other items can be equal.
type kind[T any] struct {
	many func(T) bool
	same func(a, b T) bool
}

var (
	paths = kind[string]{
		many: func(s string) bool { return s == "**" },
		same: func(a, b string) bool { return intersect(runes(a), runes(b), names) },
	}
	names = kind[rune]{
		many: func(r rune) bool { return r == '*' },
		same: func(a, b rune) bool { return a == b || a == '?' || b == '?' },
	}
)

// runes returns the runes of a segment, with ? for a class.
func runes(segment string) (list []rune) {
	for segment != "" {
		r, n := utf8.DecodeRuneInString(segment)
		if r == '[' {
			r, n = '?', class(segment)
		}
		list, segment = append(list, r), segment[n:]
	}
	return list
}

// intersect reports whether some sequence of items fits both patterns.
func intersect[T any](a, b []T, k kind[T]) bool {
	fits := make([]bool, len(b)+1) // fits[j]: the rest of a from i fits the rest of b from j
	for i := len(a); i >= 0; i-- {
		after := slices.Clone(fits)
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				fits[j] = true
			case i < len(a) && k.many(a[i]):
				fits[j] = after[j] || j < len(b) && fits[j+1]
			case j < len(b) && k.many(b[j]):
				fits[j] = fits[j+1] || i < len(a) && after[j]
			default:
				fits[j] = i < len(a) && j < len(b) && k.same(a[i], b[j]) && after[j+1]
			}
		}
	}
	return fits[0]
}
