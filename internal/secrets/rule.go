package secrets

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rule says what a kind of secret looks like, in the words of gitleaks.
type rule struct {
	ID          string
	Regex       *pattern
	Path        *pattern
	SecretGroup int
	Entropy     float64
	Keywords    []string   // lower case; one of them stands in every text that the rule is asked about
	Allowlist   *allowlist // the old form
	Allowlists  []*allowlist
	Required    any
}

// allowlist is what is no secret although it looks like one.
type allowlist struct {
	Condition   string // "AND": everything that it lists must fit, not any of it
	Paths       []*pattern
	Regexes     []*pattern
	RegexTarget string   // what regexes are held against: match, line, or else the secret
	Stopwords   []string // lower case
	TargetRules []string // whose it is; of none: of all
}

func (a *allowlist) all() bool { return strings.EqualFold(a.Condition, "AND") || a.Condition == "&&" }

// pattern is a regular expression that is compiled when it is used first; few of them ever are.
type pattern struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

// UnmarshalText keeps the text of a pattern, whatever it is.
func (p *pattern) UnmarshalText(text []byte) error {
	p.text = string(text)
	return nil
}

// said is nil for a pattern without text, as for none.
func (p *pattern) said() *pattern {
	if p == nil || p.text == "" {
		return nil
	}
	return p
}

// get panics if the text is no regular expression: what a project wrote is tried before.
func (p *pattern) get() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.text) })
	return p.re
}

func (p *pattern) fits(s string) bool { return p.get().MatchString(s) }

func anyFits(list []*pattern, s string) bool {
	return slices.ContainsFunc(list, func(p *pattern) bool { return p.fits(s) })
}

// candidate is a match of a rule, before anything has allowed it.
type candidate struct {
	path, secret, match, line string
	number                    int // of the line
}

// allowsPath reports whether nothing in a file needs to be looked at.
func (a *allowlist) allowsPath(path string) bool {
	if a.all() && len(a.Regexes)+len(a.Stopwords) > 0 {
		return false // the rest of it must fit too
	}
	return anyFits(a.Paths, path)
}

func (a *allowlist) allows(c candidate) bool {
	target := c.secret
	switch a.RegexTarget {
	case "match":
		target = c.match
	case "line":
		target = c.line
	}
	if !a.all() {
		return target != "" && anyFits(a.Regexes, target) || a.stops(c.secret)
	}
	return (len(a.Paths) == 0 || anyFits(a.Paths, c.path)) && (len(a.Regexes) == 0 || anyFits(a.Regexes, target)) &&
		(len(a.Stopwords) == 0 || a.stops(c.secret))
}

func (a *allowlist) stops(secret string) bool {
	secret = strings.ToLower(secret)
	return slices.ContainsFunc(a.Stopwords, func(w string) bool { return strings.Contains(secret, w) })
}

// candidates are the matches of a rule in a text that are random enough to be a secret.
func (r *rule) candidates(path, text string) (list []candidate) {
	for _, at := range r.Regex.get().FindAllStringIndex(text, -1) {
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

// secretIn is the group that a rule names, or else the first that matched something, or else all.
func (r *rule) secretIn(match string) string {
	groups := r.Regex.get().FindStringSubmatch(match)
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

// entropy is how many bits a byte of s tells.
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

// rules are the rules and allowlists of a gitleaks configuration. What can't be used is told and left out.
func (d document) rules() (rules []*rule, global []*allowlist, wrong []string) {
	byID := map[string]*rule{}
	for _, r := range d.Rules {
		if r.Required != nil {
			wrong = append(wrong, fmt.Sprintf("rule %s depends on another", r.ID))
			continue
		}
		r.Regex, r.Path = r.Regex.said(), r.Path.said()
		r.Keywords, r.Allowlists = lower(r.Keywords), both(r.Allowlists, r.Allowlist)
		rules, byID[r.ID] = append(rules, r), r
	}
	for _, a := range both(d.Allowlists, d.Allowlist) {
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

// both are allowlists of the two forms.
func both(list []*allowlist, old *allowlist) []*allowlist {
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
