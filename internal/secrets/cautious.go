package secrets

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// What is kept back need not be known for sure: these take more for secret than what is masked, for which a false one costs
// readers a word.

// loose are parts of names that may be those of secrets, besides the stems, wherever they stand.
var loose = trellis.Pattern(`PASS|COOKIE|AUTH(?:$|[^O]|ORIZ)`)

// MayName reports whether something of this name may be secret, or lead to what is.
func MayName(name string) bool {
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(upper, stem) }) || loose().MatchString(upper) || hintOf(name) != silent
}

// MayHold reports whether a variable may hold a secret, by its name or by what its value looks like.
func MayHold(name, value string) bool { return MayName(name) || suspect().MatchString(value) }

// suspect is what values with an account in them look like.
var suspect = trellis.Pattern(`(?i)://(?:[^/\s:@]*:[^/\s@]+|[^/\s:@]{12,})@|-----BEGIN|\beyJ[\w-]{6,}\.|\b(?:` + tokens + `|AKIA|AIza)\w{8,}|\b(?:npm|hf)_[a-z0-9]{20,}|(?:password|passwd|token|secret|api_?key)=\S`)

// stated is how settings of tools name an account, whatever their format.
var stated = trellis.Pattern(`(?im)^[^#;\n]*(?:token|pass|secret|extraheader|cookie|_auth|authorization|bearer|_pat|(?:api|access|private|auth|_)[_-]?key)[\w.]*["']?(?:\s*[=:>]\s*["']?|\s+["'])[^\s"'<]|/t/[\w-]{8,}/`)

// InSettings reports whether a file of settings may hold an account.
func InSettings(data []byte) bool { return stated().Match(data) || suspect().Match(data) }
