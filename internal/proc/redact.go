package proc

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
)

const (
	mask      = "***"
	minSecret = 8    // bytes; shorter values would mask ordinary words
	maxSecret = 1024 // bytes; longer values are searched for in pieces, so that writers hold back little
)

// Redactor masks secrets. It is safe for concurrent use; the zero value masks nothing.
type Redactor struct {
	firstTwo *[1 << 16]bool      // the first two bytes of secrets
	byFour   map[string][]string // secrets by their first four bytes, longest first
	sorted   []string
	longest  int
}

// NewRedactor returns a Redactor for the given values, without the white space around them, that are at least 8 bytes long. It
// masks them also as JSON strings, URLs and base64 spell them, whatever these are part of. Every stretch of text that secrets
// cover, also several that overlap or touch, becomes one ***. The time it takes does not grow with the number of values.
func NewRedactor(secrets []string) *Redactor {
	r := &Redactor{firstTwo: new([1 << 16]bool), byFour: map[string][]string{}}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) >= minSecret {
			for _, piece := range splitSecret(s) {
				r.sorted = append(r.sorted, spellings(piece)...)
			}
		}
	}
	slices.Sort(r.sorted)
	r.sorted = slices.Compact(r.sorted)
	for _, s := range r.sorted {
		r.firstTwo[int(s[0])<<8|int(s[1])] = true
		r.byFour[s[:4]] = append(r.byFour[s[:4]], s)
		r.longest = max(r.longest, len(s))
	}
	for _, list := range r.byFour {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	return r
}

// splitSecret splits a secret into pieces of bounded length, none of them short.
func splitSecret(s string) (pieces []string) {
	for len(s) > maxSecret {
		n := min(maxSecret, len(s)-minSecret)
		pieces, s = append(pieces, s[:n]), s[n:]
	}
	return append(pieces, s)
}

// spellings returns the ways in which a text may spell a secret, none of them short.
func spellings(s string) []string {
	forms := []string{s, inJSON(s, true), inJSON(s, false), strings.ReplaceAll(inJSON(s, false), "/", `\/`), url.QueryEscape(s), url.PathEscape(s)}
	return append(forms, inBase64(s)...)
}

// inJSON returns s as it is between the quotes of a JSON string, with or without <, > and & escaped.
func inJSON(s string, html bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	e.Encode(s) // a string can't fail
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// inBase64 returns the characters that s always becomes as part of a text in base64, after 0, 1 or 2 bytes of a group of three:
// those that encode nothing else.
func inBase64(s string) (forms []string) {
	for before := range 3 {
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := alphabet.EncodeToString(append(make([]byte, before), s...))
			if form := text[(before*8+5)/6 : (before+len(s))*8/6]; len(form) >= minSecret {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// String returns s with its secrets masked.
func (r *Redactor) String(s string) string {
	if r.longest == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	w := r.Writer(&b)
	for piece := range pieces(s) { // in pieces, so that there are not several copies of a long text
		io.WriteString(w, piece) // a Builder can't fail
	}
	w.Close()
	return b.String()
}

// pieces yields s in pieces, from its beginning to its end.
func pieces(s string) iter.Seq[string] {
	const most = 64 << 10
	return func(yield func(string) bool) {
		for len(s) > 0 {
			n := min(len(s), most)
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

// Writer returns a writer that passes its input on to w with secrets masked, also those that are split between writes. It holds
// back a possible beginning of a secret until that is decided; Close passes on the rest and does not close w.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return &redacting{r: r, w: w} }

type redacting struct {
	r       *Redactor
	w       io.Writer
	buf     []byte // not passed on yet
	covered int    // number of bytes of buf that belong to secrets that began before it
	masked  bool   // the byte before buf was masked
}

func (w *redacting) Write(p []byte) (int, error) {
	if w.r.longest == 0 {
		return w.w.Write(p)
	}
	w.buf = append(w.buf, p...)
	if err := w.pass(w.r.decidedLength(w.buf)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *redacting) Close() error { return w.pass(len(w.buf)) }

// pass writes the first n bytes of buf, masked, and removes them from buf.
func (w *redacting) pass(n int) error {
	var out []byte
	for i, b := range w.buf[:n] {
		w.covered = max(w.covered, i+w.r.matchLength(w.buf[i:]))
		switch {
		case i >= w.covered:
			out = append(out, b)
		case !w.masked:
			out = append(out, mask...)
		}
		w.masked = i < w.covered
	}
	w.covered = max(w.covered-n, 0)
	w.buf = append(w.buf[:0], w.buf[n:]...)
	if len(out) == 0 {
		return nil
	}
	_, err := w.w.Write(out)
	return err
}

// matchLength returns the length of the longest secret that text begins with.
func (r *Redactor) matchLength(text []byte) int {
	if len(text) < minSecret || !r.firstTwo[int(text[0])<<8|int(text[1])] {
		return 0
	}
	for _, s := range r.byFour[string(text[:4])] {
		if len(s) <= len(text) && string(text[:len(s)]) == s {
			return len(s)
		}
	}
	return 0
}

// decidedLength returns the index of the first secret that may continue beyond text: every secret that covers a byte before it is
// whole.
func (r *Redactor) decidedLength(text []byte) int {
	for i := max(0, len(text)-r.longest+1); i < len(text); i++ {
		if rest := text[i:]; (len(rest) == 1 || r.firstTwo[int(rest[0])<<8|int(rest[1])]) && r.isSecretPrefix(string(rest)) {
			return i
		}
	}
	return len(text)
}

// isSecretPrefix reports whether text is the beginning of a longer secret.
func (r *Redactor) isSecretPrefix(text string) bool {
	i, whole := slices.BinarySearch(r.sorted, text)
	if whole {
		i++
	}
	return i < len(r.sorted) && strings.HasPrefix(r.sorted[i], text)
}
