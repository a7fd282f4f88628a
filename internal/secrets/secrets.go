// Package secrets finds secrets in text that is about to be committed: what the rules of gitleaks describe, and values that are
// known. It reports their places, and never prints a value.
//
// The rules are in gitleaks/gitleaks.toml as their authors wrote them; scripts/rules.sh fetches newer ones.
package secrets

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed gitleaks/gitleaks.toml
var builtIn string

// defaults returns the rules of gitleaks. They are parsed when the first Scanner is created.
var defaults = sync.OnceValue(func() (d struct {
	rules  []*rule
	global []*allowlist
}) {
	doc, err := parse(builtIn)
	if err != nil {
		panic(fmt.Sprintf("reading the rules of gitleaks: %v", err))
	}
	var wrong []string
	if d.rules, d.global, wrong = doc.rules(); len(wrong) > 0 {
		panic(fmt.Sprintf("reading the rules of gitleaks: %s", wrong))
	}
	return d
})

// KnownRule is the rule of findings of values that are known to be secret.
const KnownRule = "known-secret"

// Finding is a place where a secret was found. Printing it, with any verb, does not print the secret.
type Finding struct {
	Path  string
	Line  int // from 1; 0 for the whole file
	Rule  string
	value *string
}

// Value returns the secret itself: to look for it elsewhere, never to be stored or shown. It is "" if the whole file is meant.
func (f Finding) Value() string {
	if f.value == nil {
		return ""
	}
	return *f.value
}

func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s (%s)", f.Path, f.Rule)
	}
	return fmt.Sprintf("%s:%d (%s)", f.Path, f.Line, f.Rule)
}

// Options are used in addition to the rules of gitleaks.
type Options struct {
	Config string   // content of a .gitleaks.toml, "" for none
	Ignore string   // content of a .gitleaksignore, "" for none
	Known  []string // values that are secret wherever they are; those shorter than 8 bytes are ignored
}

// Scanner finds secrets. It is safe for concurrent use.
type Scanner struct {
	rules    []*rule
	global   []*allowlist
	ignored  map[place]bool
	known    []string
	keywords *keywordIndex
}

// minKnown is the minimum length of a known value, in bytes: shorter ones are in ordinary text too.
const minKnown = 8

// New returns a Scanner, and messages about parts of the configuration that it can't use.
func New(o Options) (*Scanner, []string) {
	d := defaults()
	s := &Scanner{rules: d.rules, global: d.global, ignored: placesIn(o.Ignore)}
	wrong := s.addConfig(o.Config)
	for _, v := range o.Known {
		if v = strings.TrimSpace(v); len(v) >= minKnown && !slices.Contains(s.known, v) {
			s.known = append(s.known, v)
		}
	}
	s.keywords = newKeywordIndex(s.rules)
	return s, wrong
}

// Scan returns the secrets in lines that were added to a file; first is the number of the first line. In a file that is not text
// it finds only known values, and files that are secret as such.
func (s *Scanner) Scan(path string, first int, text string) []Finding {
	found := s.findKnown(path, first, text)
	if slices.ContainsFunc(s.global, func(a *allowlist) bool { return a.allowsPath(path) }) {
		return s.filter(found)
	}
	binary := strings.IndexByte(text, 0) >= 0
	var near []bool
	if !binary {
		near = s.keywords.matchingRules(text)
	}
	for i, r := range s.rules {
		switch {
		case r.Path != nil && !r.Path.matches(path), slices.ContainsFunc(r.Allowlists, func(a *allowlist) bool { return a.allowsPath(path) }):
		case r.Regex == nil:
			found = append(found, Finding{Path: path, Rule: r.ID})
		case !binary && (len(r.Keywords) == 0 || near[i]):
			found = append(found, s.findMatches(r, path, first, text)...)
		}
	}
	return s.filter(found)
}

// findKnown returns the places of known values.
func (s *Scanner) findKnown(path string, first int, text string) (found []Finding) {
	for _, v := range s.known {
		for at, next := 0, 0; next >= 0; at += len(v) {
			if next = strings.Index(text[at:], v); next >= 0 {
				at += next
				found = append(found, Finding{path, first + strings.Count(text[:at], "\n"), KnownRule, &v})
			}
		}
	}
	return found
}

func (s *Scanner) findMatches(r *rule, path string, first int, text string) (found []Finding) {
	for _, c := range r.candidates(path, text) {
		allows := func(a *allowlist) bool { return a.allows(c) }
		if !slices.ContainsFunc(s.global, allows) && !slices.ContainsFunc(r.Allowlists, allows) {
			found = append(found, Finding{path, first + c.number, r.ID, &c.secret})
		}
	}
	return found
}

// filter leaves out ignored findings, duplicates, and findings of a generic rule where a specific rule found the same secret.
func (s *Scanner) filter(found []Finding) (list []Finding) {
	seen := map[place]bool{}
	for _, f := range found {
		named := strings.Contains(f.Rule, "generic") && slices.ContainsFunc(found, func(g Finding) bool {
			return g.Line == f.Line && !strings.Contains(g.Rule, "generic") && strings.Contains(g.Value(), f.Value())
		})
		p := place{f.Path, f.Rule, f.Line}
		if !named && !seen[p] && !s.ignored[p] {
			list = append(list, f)
		}
		seen[p] = true
	}
	return list
}
