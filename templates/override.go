package templates

import (
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/criteria"
)

// override adds a project's own file and checks that nothing gets lost: every placeholder of the embedded template must occur
// where only its own blank value removes it.
func (t *template) override(file string, src []byte) error {
	if !utf8.Valid(src) {
		return problem(file, 0, "save it as UTF-8", "the template is not UTF-8")
	}
	if p := criteria.Conflict(file, src); p != nil {
		return p
	}
	_, fences := t.placeholderPlaces()["nonce"]
	embedded := t.sections[system]
	delete(t.sections, system)
	if err := t.addFile(file, string(src), false); err != nil {
		return err
	}
	if t.ownSystem = t.sections[system] != nil; !t.ownSystem {
		t.sections[system] = embedded
	}
	places := t.placeholderPlaces()
	if err := checkPlaceholder(file, "{{instructions}}", "put {{instructions}} where the role's instructions belong", places[instructions]); err != nil {
		return err
	}
	if fences && len(places["nonce"]) == 0 {
		return problem(file, 0, "put {{include data}} into the system section: it says what the fences mean", "the placeholder {{include data}} is missing")
	}
	for _, s := range t.slots {
		if err := checkPlaceholder(file, s.placeholder(), "put it in: it is "+s.Meaning, places[s.Name]); err != nil {
			return err
		}
		if n := len(places[s.Name]); s.Data && n > 1 {
			return problem(file, 0, "data reaches a prompt once", "the placeholder %s appears %d times", s.placeholder(), n)
		}
	}
	return nil
}

// checkPlaceholder returns a problem if a placeholder is missing, or occurs only where something else may remove it.
func checkPlaceholder(file, placeholder, hint string, places []place) error {
	if len(places) == 0 {
		return problem(file, 0, hint, "the placeholder %s is missing", placeholder)
	}
	for _, p := range places {
		if p.removedBy == "" {
			return nil
		}
	}
	return problem(file, places[0].line, "take it out of there", "the placeholder %s would get lost with %s", placeholder, places[0].removedBy)
}

func (s slot) placeholder() string {
	if s.Data {
		return "{{data " + s.Name + "}}"
	}
	return "{{" + s.Name + "}}"
}

// place is the position of a placeholder.
type place struct {
	line      int
	removedBy string // what else removes it, "" if nothing does
}

// placeholderPlaces returns the positions of each placeholder of the template, by its name.
func (t *template) placeholderPlaces() map[string][]place {
	found := map[string][]place{}
	t.walk(found, t.sections[system], nil, 0)
	t.walk(found, t.sections[prompt], nil, 0)
	t.walk(found, t.sections[instructions], []string{"the instructions, which a role's file replaces"}, 0)
	return found
}

// walk records the positions in nodes. inside lists what contains the nodes; line, if not 0, is that of the include of a part.
func (t *template) walk(found map[string][]place, nodes []node, inside []string, line int) {
	for _, n := range nodes {
		if line > 0 {
			n.line = line
		}
		switch n.kind {
		case value, fence:
			found[n.text] = append(found[n.text], place{n.line, otherContainer(n.text, inside)})
		case cond:
			in := inside
			if s, _ := t.slot(n.text); !s.Required {
				in = append(inside[:len(inside):len(inside)], "{{if "+n.text+"}}")
			}
			t.walk(found, n.body, in, line)
		case include:
			t.walk(found, n.body, inside, n.line)
		}
	}
}

// otherContainer returns the first element of inside that is not the placeholder's own condition.
func otherContainer(name string, inside []string) string {
	for _, in := range inside {
		if in != "{{if "+name+"}}" {
			return in
		}
	}
	return ""
}
