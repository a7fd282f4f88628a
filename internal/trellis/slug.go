package trellis

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Slug returns the valid name nearest to s: user-auth for "User Auth", ubersicht for "Übersicht". It is empty if nothing is
// left.
func Slug(s string) string {
	name := strings.Join(Words(s), "-")
	return strings.TrimRight(name[:min(len(name), MaxName)], "-")
}

// maxShortName is the maximum length of a name that ShortName makes.
const maxShortName = 30

// ShortName derives a task's name from a text: as many of its first words as fit into 30 letters, "" if it has no words.
func ShortName(text string) string {
	words := Words(text)
	n := len(words)
	for n > 1 && len(strings.Join(words[:n], "-")) > maxShortName {
		n--
	}
	name := strings.Join(words[:n], "-")
	return name[:min(len(name), maxShortName)]
}

// Words returns the words of a text in small ASCII letters and digits, after transliteration: accents are dropped, ß becomes
// ss, ж becomes zh. Letters of alphabets other than Latin, Greek and Cyrillic separate words.
func Words(s string) []string {
	return strings.FieldsFunc(transliterate(strings.ToLower(s)), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
}

// transliterate transliterates small letters to ASCII.
func transliterate(s string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(s) {
		letters, ok := transliteration(r)
		switch {
		case ok:
			b.WriteString(letters)
		case !unicode.Is(unicode.Mn, r): // drops the accents of letters
			b.WriteRune(r)
		}
	}
	return b.String()
}

// alphabets are letters without accents and, in the same order, their transliterations; - means dropped.
var alphabets = [...][2]string{
	{"ßæœøłđðþıħŧŋĸ", "ss ae oe o l d d th i h t n k"},
	{"абвгдежзиклмнопрстуфхцчшщъыьэюя", "a b v g d e zh z i k l m n o p r s t u f kh ts ch sh shch - y - e yu ya"},
	{"єіґђјљњћџѕ", "ye i g dj j lj nj c dz dz"},
	{"αβγδεζηθικλμνξοπρσςτυφχψω", "a v g d e z i th i k l m n x o p r s s t y f ch ps o"},
}

// transliteration returns the transliteration of a letter. ok reports whether it is one of alphabets.
func transliteration(r rune) (letters string, ok bool) {
	for _, a := range alphabets {
		if before, _, there := strings.Cut(a[0], string(r)); there {
			return strings.Trim(strings.Fields(a[1])[len([]rune(before))], "-"), true
		}
	}
	return "", false
}
