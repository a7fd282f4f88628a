package secrets

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// hint is what a name says about its value.
type hint int

const (
	noHint       hint = iota // nothing
	maybeSecret              // it may be secret, or only describe a secret
	surelySecret             // it is secret
)

// stems are parts of words that make a name mean a secret.
var stems = []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "DSN", "JWT", "CREDENTIAL", "WEBHOOK"}

// harmless matches words, and beginnings of words, that contain a stem and mean something else.
var harmless = trellis.Pattern(`KEY(?:BOARD|MAP|WORD|CLOAK|STROKE|FRAME|PAD|NOTE|STONE|SPACE|PRESS|CODE|LESS|BIND|RING|CHAIN|STORE|OF$)|` +
	`^(?:HOT|MON|DON|TUR|WHIS|HOC|JOC|MIC|LAC|VAL|PUB)KEY|TOKENI[SZ]\w*|SECRETAR\w*`)

// describingWords lists last words of names that describe a secret, its age or place for example.
var describingWords = strings.Fields(`TYPE NAME FILE PATH DIR URL URI ENDPOINT HOST PORT TTL AGE EXPIRY EXPIRES EXPIRATION TIMEOUT LENGTH LEN SIZE LIMIT COUNT MAX MIN
	ALGORITHM ALG ISSUER AUDIENCE HEADER PREFIX FORMAT PROVIDER BACKEND SERVICE HELPER ENABLED DISABLED REQUIRED MODE POLICY SOCK SOCKET PROGRAM COMMAND`)

// hintOf returns what a name says about its value, by its words, see wordsOf: dbPassword, API_KEY_PROD, JWT.
func hintOf(name string) (h hint) {
	words := wordsOf(name)
	if len(words) == 0 || name == "PWD" { // the working directory of a shell
		return noHint
	}
	public := slices.ContainsFunc(words, func(w string) bool { return slices.Contains([]string{"PUBLIC", "PUBLISHABLE", "PUB"}, w) })
	for _, w := range words {
		h = max(h, hintOfWord(w, public))
	}
	if h == surelySecret && slices.Contains(describingWords, words[len(words)-1]) && !isURL(words) {
		return maybeSecret
	}
	return h
}

func hintOfWord(word string, public bool) hint {
	switch word {
	case "PASS", "PWD", "PAT", "CREDS":
		return surelySecret
	case "AUTH", "COOKIE", "TOKENS":
		return maybeSecret
	}
	telling := func(word string) bool {
		return slices.ContainsFunc(stems, func(stem string) bool { return strings.Contains(word, stem) && !(public && stem == "KEY") })
	}
	if telling(word) && telling(harmless().ReplaceAllString(word, "")) {
		return surelySecret
	}
	return noHint
}

// isURL reports whether a name is that of a URL that is secret as a whole.
func isURL(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "WEBHOOK") || strings.Contains(w, "DSN") })
}

// wordBorder matches the boundaries between the words of a name: apiKey, HTTPServer, API_KEY, api.key.
var wordBorder = trellis.Pattern(`[^A-Za-z0-9]+|([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// wordsOf returns the words of a name, in capitals.
func wordsOf(name string) []string {
	if !strings.ContainsAny(name, small+digits) { // like most names in an environment
		return strings.FieldsFunc(name, func(r rune) bool { return !strings.ContainsRune(capital, r) })
	}
	return strings.Fields(strings.ToUpper(wordBorder().ReplaceAllString(name, "$1$3 $2$4")))
}
