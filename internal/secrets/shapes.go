package secrets

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// shapes are what secrets look like whatever their names are. The groups of a shape are the secret parts of what it matches,
// which is secret as a whole when its first group is empty.
var shapes = sync.OnceValue(func() (list []*regexp.Regexp) {
	for _, text := range []string{
		// keys in PEM, also indented, or with their line ends written out
		`()-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]+?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`,
		`()\beyJ[\w-]{8,}\.[\w-]{8,}\.([\w-]{8,})`, // JWT, and its signature
		// addresses that let whoever knows them write
		`()https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?:[\w-]+/)*([\w-]{8,})`,
		`()https://(?:\w+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d+/([\w-]{8,})`,
		`()https://[\w.-]*webhook\.office(?:365)?\.com/webhookb2/[^\s"']{8,}`,
		`()https://chat\.googleapis\.com/v1/spaces/[^\s"']{8,}`,
		`[?&;](?:key|token|sig|signature|secret|password|access_token|api_?key|auth)=([^\s&"'#;]+)`,
		// accounts in addresses: with a password, or a token alone, as of Sentry
		`[a-zA-Z][\w+.-]*://[^\s/:@"']*:([^\s/@"']+)@`,
		`[a-zA-Z][\w+.-]*://([^\s/:@"']{16,})@`,
		`[\w.-]+:([^\s:@/"']+)@(?:tcp|unix|udp)\(`,
		`(?i)\b(?:password|passwd|pwd|accountkey|sharedaccesskey|sharedaccesssignature)[ \t]*=[ \t]*([^\s;"'&]+)`,
		`(?i)\blogin\s+\S+\s+password\s+(\S+)`,               // .netrc
		`(?i)_(?:authtoken|auth|password)[ \t]*=[ \t]*(\S+)`, // .npmrc
		// tokens that say whose they are
		`()\b(?:gh[a-z]_|github_pat_|glpat-|gl[a-z]{2,4}t-|xox[a-z]-|xapp-|sk-|pk_live_|[sr]k_(?:live|test)_|whsec_|npm_|hf_|pypi-|dop_v1_|shpat_|lin_api_|sntr[a-z]+_|AGE-SECRET-KEY-|SG\.)[\w.-]{16,}`,
		`()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`,
		`()\bAIza[\w-]{35}`,
	} {
		list = append(list, regexp.MustCompile(text))
	}
	return list
})

// shaped are the secrets in a text by what they look like. Of an account that is the same as its password, postgres say, nothing is.
func shaped(text string) (list []string) {
	for _, shape := range shapes() {
		for _, m := range shape.FindAllStringSubmatch(text, -1) {
			if m[1] == "" {
				list = append(list, partsOf(m[0])...)
			}
			for _, part := range m[1:] {
				list = append(list, spelled(part)...)
			}
		}
	}
	return list
}

// spelled are the ways in which a part of an address can stand elsewhere.
func spelled(part string) []string {
	if plain, err := url.PathUnescape(part); err == nil && plain != part {
		return []string{part, plain}
	}
	return []string{part}
}

// partsOf are a secret and, when it has several lines, each of them: programs print and indent them one by one.
func partsOf(v string) []string {
	list := []string{v}
	for _, text := range []string{v, writtenOut(v)} {
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

// writtenOut is a text with the line ends in it that it names.
func writtenOut(v string) string {
	return strings.NewReplacer(`\r\n`, "\n", `\n`, "\n").Replace(v)
}

// isWords reports whether a line has nothing in it but words.
func isWords(line string) bool {
	return strings.Trim(line, letters+` _-.,:;=()[]{}"'`) == "" && strings.ContainsAny(line, ` _:={}"`)
}
