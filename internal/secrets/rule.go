package secrets

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rule describes a kind of secret, with the fields of gitleaks.
type rule struct {
	ID          string
	Regex       *pattern
	Path        *pattern
	SecretGroup int
	Entropy     float64
	Keywords    []string   // lower case; the rule is used only for texts that contain one of them
	Allowlist   *allowlist // the old form of Allowlists
	Allowlists  []*allowlist
	Required    any
}

// allowlist describes what is not a secret although it looks like one.
type allowlist struct {
	Condition   string // "AND": everything listed must match, not any of it
	Paths       []*pattern
	Regexes     []*pattern
	RegexTarget string   // what regexes are matched against: match, line, or else the secret
	Stopwords   []string // lower case
	TargetRules []string // IDs of the rules that it is for; none: all rules
}

func (a *allowlist) needsAll() bool {
	return strings.EqualFold(a.Condition, "AND") || a.Condition == "&&"
}

// pattern is a regular expression that is compiled on first use; few of them ever are.
type pattern struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// UnmarshalText stores the text of a pattern without checking it.
func (p *pattern) UnmarshalText(text []byte) error {
	p.text = string(text)
	return nil
}

// orNil returns nil for a pattern without text, and p otherwise.
func (p *pattern) orNil() *pattern {
	if p == nil || p.text == "" {
		return nil
	}
	return p
}

// compiled returns the compiled pattern. It panics if the text is invalid: patterns of a project are checked before.
func (p *pattern) compiled() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.text) })
	return p.re
}

func (p *pattern) matches(s string) bool { return p.compiled().MatchString(s) }

func anyMatches(list []*pattern, s string) bool {
	return slices.ContainsFunc(list, func(p *pattern) bool { return p.matches(s) })
}

// candidate is a match of a rule, before allowlists are applied.
type candidate struct {
	path, secret, match, line string
	number                    int // number of the line, from 0
}

// allowsPath reports whether a file need not be scanned.
func (a *allowlist) allowsPath(path string) bool {
	if a.needsAll() && len(a.Regexes)+len(a.Stopwords) > 0 {
		return false // the other conditions must match too
	}
	return anyMatches(a.Paths, path)
}

func (a *allowlist) allows(c candidate) bool {
	target := c.secret
	switch a.RegexTarget {
	case "match":
		target = c.match
	case "line":
		target = c.line
	}
	if !a.needsAll() {
		return target != "" && anyMatches(a.Regexes, target) || a.hasStopword(c.secret)
	}
	return (len(a.Paths) == 0 || anyMatches(a.Paths, c.path)) && (len(a.Regexes) == 0 || anyMatches(a.Regexes, target)) &&
		(len(a.Stopwords) == 0 || a.hasStopword(c.secret))
}

func (a *allowlist) hasStopword(secret string) bool {
	secret = strings.ToLower(secret)
	return slices.ContainsFunc(a.Stopwords, func(w string) bool { return strings.Contains(secret, w) })
}

// candidates returns the matches of a rule in a text that are random enough to be a secret.
func (r *rule) candidates(path, text string) (list []candidate) {
	for _, at := range r.Regex.compiled().FindAllStringIndex(text, -1) {
		match := strings.Trim(text[at[0]:at[1]], "\n")
		end := at[0] + len(match)
		from := strings.LastIndexByte(text[:at[0]], '\n') + 1
		to := len(text)
		if i := strings.IndexByte(text[end:], '\n'); i >= 0 {
			to = end + i
		}
		c := candidate{path: path, match: match, secret: r.secretIn(match), line: text[from:to], number: strings.Count(text[:at[0]], "\n")}
		if r.Entropy == 0 || entropy(c.secret) > r.Entropy {
			list = append(list, c)
		}
	}
	return list
}

// secretIn returns the group that the rule names, else the first group that matched something, else the whole match.
func (r *rule) secretIn(match string) string {
	groups := r.Regex.compiled().FindStringSubmatch(match)
	if r.SecretGroup > 0 && r.SecretGroup < len(groups) {
		return groups[r.SecretGroup]
	}
	for i, g := range groups {
		if i > 0 && g != "" {
			return g
		}
	}
	return match
}

// entropy returns the Shannon entropy of s, in bits per byte.
func entropy(s string) (bits float64) {
	counts := map[rune]int{}
	for _, c := range s {
		counts[c]++
	}
	for _, n := range counts {
		p := float64(n) / float64(len(s))
		bits -= p * math.Log2(p)
	}
	return bits
}

// rules returns the rules and allowlists of a gitleaks configuration. What can't be used is left out, with a message in wrong.
func (d document) rules() (rules []*rule, global []*allowlist, wrong []string) {
	byID := map[string]*rule{}
	for _, r := range d.Rules {
		if r.Required != nil {
			wrong = append(wrong, fmt.Sprintf("rule %s depends on another", r.ID))
			continue
		}
		r.Regex, r.Path = r.Regex.orNil(), r.Path.orNil()
		r.Keywords, r.Allowlists = lower(r.Keywords), joinAllowlists(r.Allowlists, r.Allowlist)
		rules, byID[r.ID] = append(rules, r), r
	}
	for _, a := range joinAllowlists(d.Allowlists, d.Allowlist) {
		if len(a.TargetRules) == 0 {
			global = append(global, a)
		}
		for _, id := range a.TargetRules {
			if byID[id] == nil {
				byID[id] = &rule{ID: id}
				rules = append(rules, byID[id])
			}
			byID[id].Allowlists = append(byID[id].Allowlists, a)
		}
	}
	return rules, global, wrong
}

// joinAllowlists returns the allowlists of both forms in one list.
func joinAllowlists(list []*allowlist, old *allowlist) []*allowlist {
	if old != nil {
		list = append(list, old)
	}
	for _, a := range list {
		a.Stopwords = lower(a.Stopwords)
	}
	return list
}

func lower(list []string) []string {
	for i, s := range list {
		list[i] = strings.ToLower(s)
	}
	return list
}
