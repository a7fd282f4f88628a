package trellis_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edge S11: no part of the text controls a terminal, changes the direction of writing, or is hidden.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n":                 "plain\ttext\n",
		"Grüße, 日本, العربية":            "Grüße, 日本, العربية",
		"\x1b[2Jgone\a":                 "␛[2Jgone␇",
		"a\r\nb":                        "a\nb",
		"over\rwritten":                 "over␍written",
		"del\x7f c1\u009b31m":           `del␡ c1\u009b31m`,
		"user\u202eresu\u2066x\u2069":   `user\u202eresu\u2066x\u2069`,
		"a\u200bb\ufeffc":               `a\u200bb\ufeffc`,
		"tag\U000e0041":                 `tag\U000e0041`,
		"line\u2028end":                 `line\u2028end`,
		"\U0001f469\u200d\U0001f4bb ok": "\U0001f469\u200d\U0001f4bb ok",
	} {
		if got := trellis.Visible(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := trellis.Visible(trellis.Visible(text)); got != want {
			t.Errorf("%q: said twice it is %q", text, got)
		}
	}
}
