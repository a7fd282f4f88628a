package secrets

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// hint is what a name says of its value.
type hint int

const (
	silent hint = iota // nothing
	maybe              // it may be secret, or only say something of a secret
	surely             // it is secret
)

// stems make a name telling wherever they stand in one of its words.
var stems = []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "DSN", "JWT", "CREDENTIAL", "WEBHOOK"}

// harmless are words, and beginnings of words, that hold a stem and mean something else.
var harmless = trellis.Pattern(`KEY(?:BOARD|MAP|WORD|CLOAK|STROKE|FRAME|PAD|NOTE|STONE|SPACE|PRESS|CODE|LESS|BIND|RING|CHAIN|STORE|OF$)|` +
	`^(?:HOT|MON|DON|TUR|WHIS|HOC|JOC|MIC|LAC|VAL|PUB)KEY|TOKENI[SZ]\w*|SECRETAR\w*`)

// described are last words of names that say something of a secret, its age or place say.
var described = strings.Fields(`TYPE NAME FILE PATH DIR URL URI ENDPOINT HOST PORT TTL AGE EXPIRY EXPIRES EXPIRATION TIMEOUT LENGTH LEN SIZE LIMIT COUNT MAX MIN
	ALGORITHM ALG ISSUER AUDIENCE HEADER PREFIX FORMAT PROVIDER BACKEND SERVICE HELPER ENABLED DISABLED REQUIRED MODE POLICY SOCK SOCKET PROGRAM COMMAND`)

// hintOf is what a name says, whose words are told apart by case, lines and dots: dbPassword, API_KEY_PROD, JWT.
func hintOf(name string) (h hint) {
	words := wordsOf(name)
	if len(words) == 0 || name == "PWD" { // the shell's
		return silent
	}
	public := slices.ContainsFunc(words, func(w string) bool { return slices.Contains([]string{"PUBLIC", "PUBLISHABLE", "PUB"}, w) })
	for _, w := range words {
		h = max(h, hintOfWord(w, public))
	}
	if h == surely && slices.Contains(described, words[len(words)-1]) && !isURL(words) {
		return maybe
	}
	return h
}

func hintOfWord(word string, public bool) hint {
	switch word {
	case "PASS", "PWD", "PAT", "CREDS":
		return surely
	case "AUTH", "COOKIE", "TOKENS":
		return maybe
	}
	telling := func(word string) bool {
		return slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(word, stem) && !(public && stem == "KEY") })
	}
	if telling(word) && telling(harmless().ReplaceAllString(word, "")) {
		return surely
	}
	return silent
}

// isURL reports whether a name is that of an address which is secret as a whole.
func isURL(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "WEBHOOK") || strings.Contains(w, "DSN") })
}

// border is between the words of a name: apiKey, HTTPServer, API_KEY, api.key.
var border = trellis.Pattern(`[^A-Za-z0-9]+|([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// wordsOf are the words of a name, in capitals.
func wordsOf(name string) []string {
	if !strings.ContainsAny(name, small+digits) { // as most in an environment
		return strings.FieldsFunc(name, func(r rune) bool { return !strings.ContainsRune(capital, r) })
	}
	return strings.Fields(strings.ToUpper(border().ReplaceAllString(name, "$1$3 $2$4")))
}
