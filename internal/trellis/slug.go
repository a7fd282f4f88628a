package trellis

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Slug turns s into the name nearest to it: "User Auth" is user-auth, "Übersicht" is ubersicht. Empty when nothing is
// left.
func Slug(s string) string {
	name := strings.Join(Words(s), "-")
	return strings.TrimRight(name[:min(len(name), MaxName)], "-")
}

// maxShort is the longest name that Trellis makes of a text by itself.
const maxShort = 30

// ShortName is a task's name made of a text: as many of its first words as stay below 30 letters, "" when it has none.
func ShortName(text string) string {
	words := Words(text)
	n := len(words)
	for n > 1 && len(strings.Join(words[:n], "-")) > maxShort {
		n--
	}
	name := strings.Join(words[:n], "-")
	return name[:min(len(name), maxShort)]
}

// Words are what a text has of small letters and digits of ASCII, once its letters are written with those: accents are
// left out, ß is ss, ж is zh. Letters of other alphabets than Latin, Greek and Cyrillic are none.
func Words(s string) []string {
	return strings.FieldsFunc(latin(strings.ToLower(s)), func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
}

// latin spells small letters with those of ASCII.
func latin(s string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(s) {
		letters, ok := spelling(r)
		switch {
		case ok:
			b.WriteString(letters)
		case !unicode.Is(unicode.Mn, r): // not the mark of the letter before
			b.WriteRune(r)
		}
	}
	return b.String()
}

// alphabets are letters without marks and, in the same order, how they are spelled; - is not at all.
var alphabets = [...][2]string{
	{"ßæœøłđðþıħŧŋĸ", "ss ae oe o l d d th i h t n k"},
	{"абвгдежзиклмнопрстуфхцчшщъыьэюя", "a b v g d e zh z i k l m n o p r s t u f kh ts ch sh shch - y - e yu ya"},
	{"єіґђјљњћџѕ", "ye i g dj j lj nj c dz dz"},
	{"αβγδεζηθικλμνξοπρσςτυφχψω", "a v g d e z i th i k l m n x o p r s s t y f ch ps o"},
}

// spelling is how a letter is spelled. ok: it is one of alphabets.
func spelling(r rune) (letters string, ok bool) {
	for _, a := range alphabets {
		if before, _, there := strings.Cut(a[0], string(r)); there {
			return strings.Trim(strings.Fields(a[1])[len([]rune(before))], "-"), true
		}
	}
	return "", false
}
