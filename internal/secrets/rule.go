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
	id       string
	regex    *pattern
	path     *pattern
	group    int
	entropy  float64
	keywords []string // lower case; one of them stands in every text that the rule is asked about
	allowed  []*allowlist
}

// allowlist is what is no secret although it looks like one.
type allowlist struct {
	all       bool // everything that it lists must fit, not any of it
	paths     []*pattern
	regexes   []*pattern
	target    string // what regexes are held against: match, line, or else the secret
	stopwords []string
}

// pattern is a regular expression that is compiled when it is used first; few of them ever are.
type pattern struct {
	text string
	once sync.Once
	re   *regexp.Regexp
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
	if a.all && len(a.regexes)+len(a.stopwords) > 0 {
		return false // the rest of it must fit too
	}
	return anyFits(a.paths, path)
}

func (a *allowlist) allows(c candidate) bool {
	target := c.secret
	switch a.target {
	case "match":
		target = c.match
	case "line":
		target = c.line
	}
	if !a.all {
		return target != "" && anyFits(a.regexes, target) || a.stops(c.secret)
	}
	return (len(a.paths) == 0 || anyFits(a.paths, c.path)) && (len(a.regexes) == 0 || anyFits(a.regexes, target)) &&
		(len(a.stopwords) == 0 || a.stops(c.secret))
}

func (a *allowlist) stops(secret string) bool {
	secret = strings.ToLower(secret)
	return slices.ContainsFunc(a.stopwords, func(w string) bool { return strings.Contains(secret, w) })
}

// candidates are the matches of a rule in a text that are random enough to be a secret.
func (r *rule) candidates(path, text string) (list []candidate) {
	for _, at := range r.regex.get().FindAllStringIndex(text, -1) {
		match := strings.Trim(text[at[0]:at[1]], "\n")
		end := at[0] + len(match)
		from := strings.LastIndexByte(text[:at[0]], '\n') + 1
		to := len(text)
		if i := strings.IndexByte(text[end:], '\n'); i >= 0 {
			to = end + i
		}
		c := candidate{path: path, match: match, secret: r.secretIn(match), line: text[from:to], number: strings.Count(text[:at[0]], "\n")}
		if r.entropy == 0 || entropy(c.secret) > r.entropy {
			list = append(list, c)
		}
	}
	return list
}

// secretIn is the group that a rule names, or else the first that matched something, or else all.
func (r *rule) secretIn(match string) string {
	groups := r.regex.get().FindStringSubmatch(match)
	if r.group > 0 && r.group < len(groups) {
		return groups[r.group]
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

// rulesOf are the rules and allowlists of a gitleaks configuration. What can't be used is told and left out.
func rulesOf(doc table) (rules []*rule, global []*allowlist, wrong []string) {
	said := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	byID := map[string]*rule{}
	for _, t := range doc.tables("rules") {
		r := &rule{id: t.text("id"), regex: t.pattern("regex"), path: t.pattern("path"), keywords: lower(t.texts("keywords"))}
		r.entropy, _ = t["entropy"].(float64)
		group, _ := t["secretGroup"].(float64)
		r.group = int(group)
		for _, a := range append(t.tables("allowlists"), t.tables("allowlist")...) {
			r.allowed = append(r.allowed, a.allowlist())
		}
		if t["required"] != nil {
			said("rule %s depends on another", r.id)
			continue
		}
		rules, byID[r.id] = append(rules, r), r
	}
	for _, t := range append(doc.tables("allowlists"), doc.tables("allowlist")...) {
		targets := t.texts("targetRules")
		if len(targets) == 0 {
			global = append(global, t.allowlist())
		}
		for _, id := range targets {
			if byID[id] == nil {
				byID[id] = &rule{id: id}
				rules = append(rules, byID[id])
			}
			byID[id].allowed = append(byID[id].allowed, t.allowlist())
		}
	}
	return rules, global, wrong
}

func (t table) allowlist() *allowlist {
	condition := strings.ToUpper(t.text("condition"))
	return &allowlist{all: condition == "AND" || condition == "&&", paths: t.patterns("paths"), regexes: t.patterns("regexes"),
		target: t.text("regexTarget"), stopwords: lower(t.texts("stopwords"))}
}

func (t table) text(name string) string { s, _ := t[name].(string); return s }

func (t table) texts(name string) (list []string) {
	values, _ := t[name].([]any)
	for _, v := range values {
		if s, ok := v.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

// tables are the tables of a list, or a table that stands alone.
func (t table) tables(name string) (list []table) {
	if one, ok := t[name].(table); ok {
		return []table{one}
	}
	values, _ := t[name].([]any)
	for _, v := range values {
		if one, ok := v.(table); ok {
			list = append(list, one)
		}
	}
	return list
}

// pattern is nil where there is none.
func (t table) pattern(name string) *pattern {
	if s := t.text(name); s != "" {
		return &pattern{text: s}
	}
	return nil
}

func (t table) patterns(name string) (list []*pattern) {
	for _, s := range t.texts(name) {
		list = append(list, &pattern{text: s})
	}
	return list
}

func lower(list []string) []string {
	for i, s := range list {
		list[i] = strings.ToLower(s)
	}
	return list
}
