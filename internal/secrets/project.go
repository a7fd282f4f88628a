package secrets

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// with adds what a project's .gitleaks.toml says: its rules, which change those of the same name, its allowlists, and
// the rules that it turns off. What can't be used is told and left out.
func (s *Scanner) with(text string) (wrong []string) {
	doc, err := parseTOML(text)
	if err != nil {
		return []string{err.Error()}
	}
	rules, global, wrong := rulesOf(doc)
	byID := map[string]*rule{}
	for _, r := range s.rules {
		byID[r.id] = r
	}
	for _, r := range rules {
		r, err := r.over(byID[r.id])
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		byID[r.id] = r
	}
	extend, _ := doc["extend"].(table)
	for _, id := range extend.texts("disabledRules") {
		delete(byID, id)
	}
	if extend.text("path") != "" || extend.text("url") != "" {
		wrong = append(wrong, "what it extends by path or url is not read")
	}
	s.rules = nil
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		s.rules = append(s.rules, byID[id])
	}
	for _, a := range global {
		if err := a.broken(); err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		s.global = append(slices.Clone(s.global), a)
	}
	return wrong
}

// over is a rule with what it does not say itself taken from another, which may be nil.
func (r *rule) over(base *rule) (*rule, error) {
	merged := *r
	if base != nil {
		if r.regex == nil {
			merged.regex = base.regex
		}
		if r.path == nil {
			merged.path = base.path
		}
		if r.group == 0 {
			merged.group = base.group
		}
		if r.entropy == 0 {
			merged.entropy = base.entropy
		}
		merged.keywords = slices.Concat(base.keywords, r.keywords)
		merged.allowed = slices.Concat(base.allowed, r.allowed)
	}
	if merged.id == "" || merged.regex == nil && merged.path == nil {
		return nil, fmt.Errorf("rule %q says nothing", r.id)
	}
	for _, p := range []*pattern{r.regex, r.path} {
		if err := p.broken(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.id, err)
		}
	}
	for _, a := range r.allowed {
		if err := a.broken(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.id, err)
		}
	}
	return &merged, nil
}

func (a *allowlist) broken() error {
	for _, p := range slices.Concat(a.paths, a.regexes) {
		if err := p.broken(); err != nil {
			return fmt.Errorf("an allowlist: %w", err)
		}
	}
	return nil
}

func (p *pattern) broken() error {
	if p == nil {
		return nil
	}
	_, err := regexp.Compile(p.text)
	return err
}

// place is a finding that a .gitleaksignore names.
type place struct {
	path, rule string
	line       int
}

// placesIn are the lines path:rule:line of a .gitleaksignore. Those that name a commit are about one that is there
// already, and say nothing about a new one.
func placesIn(text string) map[place]bool {
	list := map[place]bool{}
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), ":")
		if len(parts) != 3 {
			continue
		}
		if n, err := strconv.Atoi(parts[2]); err == nil {
			list[place{strings.ReplaceAll(parts[0], `\`, "/"), parts[1], n}] = true
		}
	}
	return list
}
