package trellis_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edge C13: letters that are not ASCII are transliterated, not dropped, whichever way they are encoded.
func TestSlugSpellsLetters(t *testing.T) {
	for text, want := range map[string]string{
		"Übersicht":              "ubersicht",
		"U\u0308bersicht":        "ubersicht",
		"Größe ändern":           "grosse-andern",
		"Façade à l'œuvre":       "facade-a-l-oeuvre",
		"İstanbul'da ılık":       "istanbul-da-ilik",
		"Łódź, Þór & Đorđe":      "lodz-thor-dorde",
		"Добавить объём: ещё":    "dobavit-obem-eshche",
		"Ελληνικά, αλλαγές":      "ellinika-allages",
		"fi\ufb01x²":             "fifix2",
		"日本":                     "",
		"日本 v2":                  "v2",
		"--a__B--":               "a-b",
		"":                       "",
		strings.Repeat("ä-", 40): strings.TrimSuffix(strings.Repeat("a-", 30), "-"),
		strings.Repeat("щ", 30):  strings.Repeat("shch", 15),
		"\xff\xfebad":            "bad",
	} {
		got := trellis.Slug(text)
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got != "" && !trellis.ValidName(got) {
			t.Errorf("%q: %q is not a name", text, got)
		}
	}
}
