package secrets

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// addConfig adds the settings of a project's .gitleaks.toml: its rules, which change those with the same ID, its allowlists, and the
// rules that it turns off. What can't be used is left out, with a message in wrong.
func (s *Scanner) addConfig(text string) (wrong []string) {
	doc, err := document{}, checkBounds(text)
	if err == nil {
		doc, err = parse(text)
	}
	if err != nil {
		return []string{err.Error()}
	}
	rules, global, wrong := doc.rules()
	byID := map[string]*rule{}
	for _, r := range s.rules {
		byID[r.ID] = r
	}
	for _, r := range rules {
		r, err := r.withDefaults(byID[r.ID])
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		byID[r.ID] = r
	}
	for _, id := range doc.Extend.DisabledRules {
		delete(byID, id)
	}
	if doc.Extend.Path+doc.Extend.URL != "" {
		wrong = append(wrong, "what it extends by path or url is not read")
	}
	s.rules = nil
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		s.rules = append(s.rules, byID[id])
	}
	for _, a := range global {
		if err := a.check(); err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		s.global = append(slices.Clone(s.global), a)
	}
	return wrong
}

// withDefaults returns the rule with everything that it does not set itself taken from base, which may be nil.
func (r *rule) withDefaults(base *rule) (*rule, error) {
	merged := *r
	if base != nil {
		if r.Regex == nil {
			merged.Regex = base.Regex
		}
		if r.Path == nil {
			merged.Path = base.Path
		}
		if r.SecretGroup == 0 {
			merged.SecretGroup = base.SecretGroup
		}
		if r.Entropy == 0 {
			merged.Entropy = base.Entropy
		}
		merged.Keywords = slices.Concat(base.Keywords, r.Keywords)
		merged.Allowlists = slices.Concat(base.Allowlists, r.Allowlists)
	}
	if merged.ID == "" || merged.Regex == nil && merged.Path == nil {
		return nil, fmt.Errorf("rule %q is empty", r.ID)
	}
	for _, p := range []*pattern{r.Regex, r.Path} {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.ID, err)
		}
	}
	for _, a := range r.Allowlists {
		if err := a.check(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.ID, err)
		}
	}
	return &merged, nil
}

func (a *allowlist) check() error {
	for _, p := range slices.Concat(a.Paths, a.Regexes) {
		if err := p.check(); err != nil {
			return fmt.Errorf("an allowlist: %w", err)
		}
	}
	return nil
}

func (p *pattern) check() error {
	if p == nil {
		return nil
	}
	_, err := regexp.Compile(p.text)
	return err
}

// place identifies a finding, as a line of a .gitleaksignore does.
type place struct {
	path, rule string
	line       int
}

// placesIn returns the places in the lines path:rule:line of a .gitleaksignore. Lines that name a commit are left out: they are
// about a commit that exists already.
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
