package secrets

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Something may be withheld without certainty that it is a secret: the functions here accept more than those for masking, where a
// false positive costs readers a word.

// looseStems matches parts of names, besides the stems, that secrets may have at any position.
var looseStems = trellis.Pattern(`PASS|COOKIE|AUTH(?:$|[^O]|ORIZ)`)

// NameMayBeSecret reports whether something with this name may be secret, or lead to a secret.
func NameMayBeSecret(name string) bool {
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(upper, stem) }) || looseStems().MatchString(upper) || hintOf(name) != noHint
}

// MayBeSecret reports whether a variable may hold a secret, by its name or by what its value looks like.
func MayBeSecret(name, value string) bool {
	return NameMayBeSecret(name) || suspectValue().MatchString(value)
}

// suspectValue matches values that seem to contain an account.
var suspectValue = trellis.Pattern(`(?i)://(?:[^/\s:@]*:[^/\s@]+|[^/\s:@]{12,})@|-----BEGIN|\beyJ[\w-]{6,}\.|\b(?:` + tokens + `|AKIA|AIza)\w{8,}|\b(?:npm|hf)_[a-z0-9]{20,}|(?:password|passwd|token|secret|api_?key)=\S`)

// namedAccount matches the ways in which settings of tools name an account, in any format.
var namedAccount = trellis.Pattern(`(?im)^[^#;\n]*(?:token|pass|secret|extraheader|cookie|_auth|authorization|bearer|_pat|(?:api|access|private|auth|_)[_-]?key)[\w.]*["']?(?:\s*[=:>]\s*["']?|\s+["'])[^\s"'<]|/t/[\w-]{8,}/`)

// InSettings reports whether a file of settings may hold an account.
func InSettings(data []byte) bool { return namedAccount().Match(data) || suspectValue().Match(data) }
