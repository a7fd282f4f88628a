package secrets

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	digits  = "0123456789"
	capital = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	small   = "abcdefghijklmnopqrstuvwxyz"
	letters = capital + small
)

// commonValues lists values that are in ordinary text, whatever their names say.
var commonValues = strings.Fields(`localhost password passwort passwords changeme changeit change-me change_me example examples testtest testing test-test testpass testuser test1234
	administrator postgres postgresql rabbitmq mongodb minioadmin username development production staging undefined disabled required optional
	placeholder anonymous unlimited internal external inherit automatic keychain osxkeychain libsecret manager manager-core 12345678 123456789 1234567890 00000000 11111111`)

// placeholder matches values that only stand for another one: a variable, a place to fill in.
var placeholder = trellis.Pattern(`(?i)^(?:\$[A-Z_][A-Z0-9_]*|\$\{.*\}|\$\(.*\)|%[A-Z_]\w*%|<.*>|\{\{?[^"']*\}\}?|\*+|process\.env\..*|os\.environ.*|your[-_ ].*|my[-_ ]?(?:secret|token|password|key)|x{8,})$`)

// isOrdinary reports whether a value need not be hidden, since it is short or common, or only stands for another one.
func isOrdinary(v string) bool {
	lower := strings.ToLower(v)
	return len(v) < minKnown || slices.Contains(commonValues, lower) || strings.Contains(lower, "changeme") || strings.Trim(v, v[:1]) == "" || placeholder().MatchString(v)
}

// pathStart matches the beginning of a file path. A secret can begin with a slash too, but hardly with a word between two slashes.
var pathStart = trellis.Pattern(`^(?:/[A-Za-z.]+(?:/|$)|\.\.?/|~/|\\\\|[A-Za-z]:[/\\])`)

// looksRandom reports whether a value is long, has letters and digits, and repeats few characters.
func looksRandom(v string) bool {
	if strings.ContainsAny(v, " /:@") || !strings.ContainsAny(v, digits) || !strings.ContainsAny(v, letters) {
		return false
	}
	mixed := strings.ContainsAny(v, small) && strings.ContainsAny(v, capital) && !strings.ContainsAny(v, "-_.")
	return len(v) >= 20 && entropy(v) >= 3.5 || len(v) >= 16 && mixed && entropy(v) >= 3.2
}

// hasMixedPart reports whether a value has a stretch in which letters and digits are mixed as in no word, version or place.
func hasMixedPart(v string) bool {
	if strings.ContainsAny(v, " /:@") {
		return false
	}
	return slices.ContainsFunc(strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune("-_.,;+", r) }), func(s string) bool {
		inner := strings.TrimLeft(strings.TrimRight(s, digits), digits)                     // app2024, 2nd
		return len(s) >= 8 && strings.ContainsAny(inner, digits) && countLetters(inner) > 2 // a time has two
	})
}

func countLetters(s string) int {
	return len(strings.Map(func(r rune) rune {
		if strings.ContainsRune(letters, r) {
			return r
		}
		return -1
	}, s))
}
