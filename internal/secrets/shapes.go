package secrets

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// shape is what some secrets look like, whatever their names are. Its groups are the secret parts of a match, which is secret as a
// whole if the first group is empty.
type shape struct {
	markers []string // lower case; every match contains one of them: most texts have none, and need no closer look
	regexp  func() *regexp.Regexp
}

// tokens are beginnings of tokens that tell who issued them, and with which hardly any other word begins.
const tokens = `gh[a-z]_|github_pat_|glpat-|xox[a-z]-|xapp-|sk-|[sr]k_(?:live|test)_|whsec_|pypi-|dop_v1_|shpat_|lin_api_|AGE-SECRET-KEY-`

// find returns the matches of the shape in a text, which is also given in lower case.
func (s shape) find(text, lower string) [][]string {
	if !slices.ContainsFunc(s.markers, func(part string) bool { return strings.Contains(lower, part) }) {
		return nil
	}
	return s.regexp().FindAllStringSubmatch(text, -1)
}

var shapes = sync.OnceValue(func() (list []shape) {
	for _, s := range [][2]string{
		// keys in PEM, also indented, or with their line ends written out
		{"private", `()-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]+?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`},
		{"eyj", `()\beyJ[\w-]{8,}\.[\w-]{8,}\.([\w-]{8,})`}, // JWT, and its signature
		// URLs that let whoever knows them write
		{"slack", `()https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?:[\w-]+/)*([\w-]{8,})`},
		{"discord", `()https://(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/([\w-]{8,})`},
		{"office", `()https://[\w.-]*webhook\.office(?:365)?\.com/webhookb2/[^\s"']{8,}`},
		{"googleapis", `()https://chat\.googleapis\.com/v1/spaces/[^\s"']{8,}`},
		{"=", `[?&;](?:key|token|sig|signature|secret|password|access_token|api_?key|auth)=([^\s&"'#;]+)`},
		// accounts in URLs: with a password, or a token alone, as of Sentry
		{"://", `[a-zA-Z][\w+.-]*://[^\s/:@"']*:([^\s/@"']+)@`},
		{"://", `[a-zA-Z][\w+.-]*://([^\s/:@"']{16,})@`},
		{"@", `[\w.-]+:([^\s:@/"']+)@(?:tcp|unix|udp)\(`},
		{"=", `(?i)\b(?:password|passwd|pwd|accountkey|sharedaccesskey|sharedaccesssignature)[ \t]*=[ \t]*([^\s;"'&]+)`},
		{"login", `(?i)\blogin\s+\S+\s+password\s+(\S+)`},           // .netrc
		{"=", `(?i)_(?:authtoken|auth|password)[ \t]*=[ \t]*(\S+)`}, // .npmrc
		// tokens that tell who issued them
		{"- _ sg.", `()\b(?:` + tokens + `|gl[a-z]{2,4}t-|pk_live_|npm_|hf_|sntr[a-z]+_|SG\.)[\w.-]{16,}`},
		{"akia asia", `()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`},
		{"aiza", `()\bAIza[\w-]{35}`},
	} {
		list = append(list, shape{strings.Fields(s[0]), trellis.Pattern(s[1])})
	}
	return list
})

// findByShape returns what looks like a secret in a text. Ordinary values in it, such as postgres, are removed later, by values.
func findByShape(text string) (list []string) {
	lower := strings.ToLower(text)
	for _, shape := range shapes() {
		for _, m := range shape.find(text, lower) {
			if m[1] == "" {
				list = append(list, partsOf(m[0])...)
			}
			for _, part := range m[1:] {
				list = append(list, urlSpellings(part)...)
			}
		}
	}
	return list
}

// urlSpellings returns the ways in which a part of a URL may be written elsewhere.
func urlSpellings(part string) []string {
	if plain, err := url.PathUnescape(part); err == nil && plain != part {
		return []string{part, plain}
	}
	return []string{part}
}

// partsOf returns a secret and, if it has several lines, each of them: programs print and indent them one by one.
func partsOf(v string) []string {
	list := []string{v}
	for _, text := range []string{v, unescapeNewlines(v)} {
		if !strings.Contains(text, "\n") {
			continue
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && !isWords(line) {
				list = append(list, line)
			}
		}
	}
	return list
}

// unescapeNewlines returns a text with its escape sequences for line ends replaced.
func unescapeNewlines(v string) string {
	return strings.NewReplacer(`\r\n`, "\n", `\n`, "\n").Replace(v)
}

// isWords reports whether a line has nothing in it but words.
func isWords(line string) bool {
	return strings.Trim(line, letters+` _-.,:;=()[]{}"'`) == "" && strings.ContainsAny(line, ` _:={}"`)
}
