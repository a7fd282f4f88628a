package templates

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// checkData checks the values of data against the template's slots.
func (t *template) checkData(data map[string]string, nonce string) error {
	if nonce == "" || strings.ContainsAny(nonce, "\"<> \t\r\n") {
		return fmt.Errorf("the nonce %q is not one word of letters and digits", nonce)
	}
	for name, v := range data {
		s, known := t.slot(name)
		if !known {
			return fmt.Errorf("there is no slot %q", name)
		}
		if !s.Data && strings.ContainsAny(v, "\r\n") {
			return fmt.Errorf("the value of %s has more than one line", name)
		}
	}
	for _, s := range t.slots {
		if s.Required && isBlank(data[s.Name]) {
			return fmt.Errorf("the slot %s is empty", s.Name)
		}
	}
	return nil
}

func isBlank(s string) bool { return strings.TrimSpace(s) == "" }

type renderer struct {
	t     *template
	data  map[string]string
	nonce string
}

func (t *template) render(data map[string]string, nonce string) Prompt {
	r := renderer{t, data, nonce}
	p := Prompt{System: strings.TrimSpace(r.section(system) + r.unplacedForm()), Text: r.section(prompt)}
	if body := t.sections[prompt]; len(body) > 1 && body[0].text == "" && body[1].kind == include {
		var b strings.Builder
		r.write(&b, body[1:2])
		p.Shared = b.Len()
	}
	return p
}

// unplacedForm returns the form section for a project's own frame that lacks {{form}}, as those do that were written when it was
// part of the system section.
func (r *renderer) unplacedForm() string {
	if r.t.sections[form] == nil || r.t.ownSystem || len(r.t.placeholderPlaces()[form]) > 0 {
		return ""
	}
	return "\n\n" + r.section(form)
}

func (r *renderer) section(name string) string {
	var b strings.Builder
	r.write(&b, r.t.sections[name])
	return b.String()
}

func (r *renderer) write(b *strings.Builder, nodes []node) {
	for _, n := range nodes {
		switch n.kind {
		case text:
			b.WriteString(n.text)
		case fence:
			r.fence(b, n.text)
		case include:
			r.write(b, n.body)
		case cond:
			if !isBlank(r.data[n.text]) {
				r.write(b, n.body)
			}
		case value:
			r.value(b, n.text)
		}
	}
}

func (r *renderer) value(b *strings.Builder, name string) {
	switch name {
	case instructions, form:
		r.write(b, r.t.sections[name])
	case "nonce":
		b.WriteString(r.nonce)
	default:
		b.WriteString(strings.ToValidUTF8(r.data[name], "\uFFFD"))
	}
}

// fence writes a slot's value unchanged between two lines that it can't contain: their nonce is derived from the value, so that
// an author who knows all earlier nonces can't know the one for this text.
func (r *renderer) fence(b *strings.Builder, name string) {
	v := strings.ToValidUTF8(r.data[name], "\uFFFD")
	nonce := r.nonce + "-" + fenceToken(r.nonce, name, v)
	fmt.Fprintf(b, "<data name=%q nonce=%q>\n", name, nonce)
	b.WriteString(v)
	fmt.Fprintf(b, "\n</data nonce=%q>", nonce)
}

// fenceToken returns a word derived from a slot and its value. Equal texts have the same word in every call of a run, so that what
// the calls have in common is equal to the byte.
func fenceToken(nonce, name, value string) string {
	h := hmac.New(sha256.New, []byte(nonce))
	h.Write([]byte(name + "\x00"))
	h.Write([]byte(value))
	return strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:10]))
}
