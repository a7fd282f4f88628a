package tracker

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Kind is a supported tracker.
type Kind string

// The trackers, as they are spelled at the beginning of a reference.
const (
	Linear Kind = "linear"
	Jira   Kind = "jira"
	GitLab Kind = "gitlab"
	GitHub Kind = "github"
)

// Kinds lists all trackers.
var Kinds = []Kind{Linear, Jira, GitLab, GitHub}

// ExampleRefs are examples of references to issues, for help and completion, in the order of Kinds.
var ExampleRefs = []string{"linear:ABC-12", "jira:ABC-12", "gitlab:group/project#4", "github:owner/repo#7"}

// Ref refers to an issue: linear:ABC-12. task.json records it as the source of a task.
type Ref struct {
	Kind Kind
	Key  string // ABC-12, group/project#4, owner/repo#7, host/owner/repo#7, or only the number (for gh)
	Site string // such as https://acme.atlassian.net; "": the site in the settings or the tracker's public one
}

func (r Ref) String() string { return string(r.Kind) + ":" + r.Key }

// RefError says that a text doesn't refer to an issue.
type RefError struct {
	Text string
	Why  string   // "" if it doesn't resemble a reference
	Next []string // what to type
}

func (e *RefError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("%q names no issue: %s", e.Text, e.Why)
	}
	return fmt.Sprintf("%q names no issue", e.Text)
}

var keyPatterns = sync.OnceValue(func() map[Kind]*regexp.Regexp {
	return map[Kind]*regexp.Regexp{
		Linear: regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,31}-[1-9][0-9]{0,9}$`),
		Jira:   regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,31}-[1-9][0-9]{0,9}$`),
		GitLab: regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.][A-Za-z0-9_.-]*){1,20}#[1-9][0-9]{0,9}$`),
		GitHub: regexp.MustCompile(`^(?:(?:[A-Za-z0-9_.][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+){1,2})?#)?[1-9][0-9]{0,9}$`),
	}
})

// Sites are the addresses of servers in a project's settings.
type Sites struct{ Jira, GitLab string }

// Parse parses a reference to an issue: linear:ABC-12, jira:KEY, gitlab:group/project#4, github:owner/repo#7, the issue's web
// address, or what gh accepts: 12, #12, owner/repo#12.
func Parse(text string, sites Sites) (Ref, error) {
	if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
		return parseAddress(text, sites)
	}
	if keyPatterns()[GitHub].MatchString(text) && !hasDotSegment(text) {
		return Ref{Kind: GitHub, Key: strings.TrimPrefix(text, "#")}, nil
	}
	if kind, key, named := strings.Cut(text, ":"); named {
		return parseNamed(text, Kind(strings.ToLower(kind)), key)
	}
	if keyPatterns()[Jira].MatchString(text) {
		key := strings.ToUpper(text)
		return Ref{}, &RefError{text, "it does not say which tracker's", []string{"--from-issue linear:" + key, "--from-issue jira:" + key}}
	}
	return Ref{}, &RefError{text, "", []string{"--from-issue 12, --from-issue owner/repo#12, or the issue's address", "--from-issue " + strings.Join(ExampleRefs[:3], ", ")}}
}

// ParseSource returns the reference to the issue that a task came from, as recorded in task.json. If no setting says where Jira is,
// the issue's address does, as it did when the issue was read.
func ParseSource(issue, address string, sites Sites) (Ref, error) {
	ref, err := Parse(issue, sites)
	if err != nil || ref.Kind != Jira || sites.Jira != "" {
		return ref, err
	}
	at, err := Parse(address, sites)
	if err != nil || at.Kind != Jira || at.Key != ref.Key {
		return ref, &RefError{Text: issue, Why: "its address is not one of it"}
	}
	return at, nil
}

func parseNamed(text string, kind Kind, key string) (Ref, error) {
	form, known := keyPatterns()[kind]
	if !known {
		if near := trellis.Nearest(string(kind), trellis.Strings(Kinds)); near != "" {
			return Ref{}, &RefError{text, fmt.Sprintf("did you mean %s:%s?", near, key), []string{"--from-issue " + near + ":" + key}}
		}
		return Ref{}, &RefError{text, "no tracker is called so", []string{"--from-issue " + strings.Join(ExampleRefs, ", ")}}
	}
	if !form.MatchString(key) || kind == GitHub && !strings.Contains(key, "/") || hasDotSegment(key) {
		for i, k := range Kinds {
			if k == kind {
				return Ref{}, &RefError{text, "it is spelled as " + ExampleRefs[i], []string{"--from-issue " + ExampleRefs[i]}}
			}
		}
	}
	if kind == Linear || kind == Jira {
		key = strings.ToUpper(key)
	}
	return Ref{Kind: kind, Key: key}, nil
}

// hasDotSegment reports whether a key has a path element "." or "..".
func hasDotSegment(key string) bool {
	project, _, _ := strings.Cut(key, "#")
	return slices.ContainsFunc(strings.Split(project, "/"), func(part string) bool { return part == "." || part == ".." })
}

var pathPatterns = sync.OnceValue(func() map[Kind]*regexp.Regexp {
	return map[Kind]*regexp.Regexp{
		Linear: regexp.MustCompile(`^/[^/]+/issue/([A-Za-z][A-Za-z0-9_]*-[1-9][0-9]*)(?:/[^/]*)?$`),
		Jira:   regexp.MustCompile(`^(?:/.*)?/browse/([A-Za-z][A-Za-z0-9_]*-[1-9][0-9]*)$`),
		GitLab: regexp.MustCompile(`^/([^?#]+)/-/(?:issues|work_items)/([1-9][0-9]*)$`),
		GitHub: regexp.MustCompile(`^/([^/]+/[^/]+)/issues/([1-9][0-9]*)$`),
	}
})

// parseAddress parses the web address of an issue. The host determines the tracker; self-hosted ones must be in the settings,
// since a token is sent to no other.
func parseAddress(text string, sites Sites) (Ref, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return Ref{}, &RefError{Text: text}
	}
	path, site := strings.TrimSuffix(u.Path, "/"), u.Scheme+"://"+u.Host
	match := func(kind Kind, prefix string) []string {
		rest, is := strings.CutPrefix(path, prefix)
		if !is {
			return nil
		}
		return pathPatterns()[kind].FindStringSubmatch(rest)
	}
	if u.Host == "linear.app" {
		if m := match(Linear, ""); m != nil {
			return Ref{Kind: Linear, Key: strings.ToUpper(m[1])}, nil
		}
		return Ref{}, &RefError{Text: text, Next: []string{"--from-issue " + ExampleRefs[0]}}
	}
	if m := match(Jira, pathPrefix(sites.Jira, site)); m != nil {
		switch {
		case sameHost(sites.Jira, site):
			return Ref{Kind: Jira, Key: strings.ToUpper(m[1])}, nil
		case sites.Jira == "" && u.Scheme == "https" && strings.HasSuffix(u.Host, ".atlassian.net"):
			return Ref{Kind: Jira, Key: strings.ToUpper(m[1]), Site: site}, nil
		}
		return Ref{}, &RefError{text, "no setting says that a Jira is at " + trellis.VisibleLine(u.Host), []string{"trellis config set trackers.jira.url " + trellis.ShellWord(site)}}
	}
	if m := match(GitLab, pathPrefix(sites.GitLab, site)); m != nil {
		key := m[1] + "#" + m[2]
		switch {
		case !keyPatterns()[GitLab].MatchString(key), hasDotSegment(key):
			return Ref{}, &RefError{Text: text}
		case sameHost(sites.GitLab, site), sites.GitLab == "" && site == gitlabSite:
			return Ref{Kind: GitLab, Key: key}, nil
		}
		return Ref{}, &RefError{text, "no setting says that a GitLab is at " + trellis.VisibleLine(u.Host), []string{"trellis config set trackers.gitlab.url " + trellis.ShellWord(site)}}
	}
	if m := match(GitHub, ""); m != nil && !hasDotSegment(m[1]) {
		key := m[1] + "#" + m[2]
		if u.Host != "github.com" { // only the key is recorded, so it has to name the host
			key = u.Host + "/" + key
		}
		return Ref{Kind: GitHub, Key: key, Site: site}, nil
	}
	return Ref{}, &RefError{Text: text, Next: []string{"--from-issue 12, --from-issue owner/repo#12, or the issue's address"}}
}

// sameHost reports whether two addresses are on the same server.
func sameHost(setting, site string) bool {
	u, err := url.Parse(setting)
	return err == nil && setting != "" && strings.EqualFold(u.Scheme+"://"+u.Host, site)
}

// pathPrefix returns the path prefix in the setting if site is the setting's server, else "".
func pathPrefix(setting, site string) string {
	u, err := url.Parse(setting)
	if err != nil || !sameHost(setting, site) {
		return ""
	}
	return strings.TrimSuffix(u.Path, "/")
}
