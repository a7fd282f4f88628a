// Package templates holds the prompts that Trellis gives to agents, and the schemas of their answers.
//
// A template is a text file, <name>.md.tmpl: a header comment (its purpose, when it is used, its slots, one per line: name,
// required or optional, data or text, meaning), then up to three sections, each begun by a line such as "=== system ===":
// system (rules of form, for programs that take a system prompt), instructions (the role's task) and prompt (the frame around
// both instructions and data). Embedded templates may also have a section form, the form of the answer, if several share a
// system section. Without any section line the whole file is the prompt section. Placeholders are replaced in one pass:
//
//	{{data NAME}}      the slot's value between fences that carry the nonce
//	{{NAME}}           the value of a text slot, one line; {{nonce}} is always there
//	{{if NAME}}…{{end}}  the text between, unless the slot is blank
//	{{instructions}}   the instructions section
//	{{form}}           the form section, in a template that has one
//	{{include PART}}   the same section of a file in parts/
//	{{literal NAME}}   the text {{NAME}}, for prompts about placeholders
//
// Inserted values are never searched for placeholders, and no value can end its own fence.
package templates

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

//go:embed *.md.tmpl parts/*.md.tmpl schemas/*.json schemas/native/*.json
var files embed.FS

const suffix = ".md.tmpl"

// ErrUnknown means that there is no template, or schema, with that name.
var ErrUnknown = errors.New("no such template")

// Prompt is a rendered template.
type Prompt struct {
	System string // rules of form; precedes Text for programs without a system prompt
	Text   string
	Shared int // length in bytes of the part that Text begins with, which is the same in all prompts that begin with it; 0 if there is none
}

// Override is a project's replacement for the embedded text. Nil fields change nothing.
type Override struct {
	Frame        []byte // .trellis/templates/<name>.md.tmpl; sections that it lacks are the embedded ones; it must have every slot
	Instructions []byte // body of .trellis/agents/<role>.md, without front matter: literal text for the instructions section
}

// Names returns the names of the templates that can be rendered and overridden, sorted.
func Names() []string {
	list, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the embedded root is readable
	}
	var names []string
	for _, e := range list {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok {
			names = append(names, name)
		}
	}
	return names
}

// Render renders the prompt called name. data holds a value for each required slot; optional ones may be missing or blank,
// unknown keys are an error. nonce marks the fences: letters and digits that the authors of the data can't guess, the same for
// all prompts of a run so that they share a prefix. Values are inserted byte for byte; invalid UTF-8 becomes U+FFFD, since a
// prompt is UTF-8. A fault in the override is a *trellis.Problem; for an unknown name the error matches ErrUnknown.
func Render(name string, data map[string]string, nonce string, o Override) (Prompt, error) {
	t, err := load(name, o)
	if err != nil {
		return Prompt{}, err
	}
	if err := t.checkData(data, nonce); err != nil {
		return Prompt{}, fmt.Errorf("rendering prompt %s: %w", name, err)
	}
	return t.render(data, nonce), nil
}

// Check returns the problem with an override, with its line, without rendering anything.
func Check(name string, o Override) error {
	_, err := load(name, o)
	return err
}

// slot is a place in a template that takes a value.
type slot struct {
	Name     string
	Required bool
	Data     bool // inserted in a fence; otherwise one line that Trellis itself produces
	Meaning  string
}

func load(name string, o Override) (*template, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("%w: %q (there are %s)", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	src, err := files.ReadFile(name + suffix)
	if err != nil {
		return nil, fmt.Errorf("reading template %s: %w", name, err)
	}
	t := &template{sections: map[string][]node{}}
	if err := t.addFile("templates/"+name+suffix, string(src), true); err != nil {
		return nil, err
	}
	if o.Frame != nil {
		if err := t.override(".trellis/templates/"+name+suffix, o.Frame); err != nil {
			return nil, err
		}
	}
	if o.Instructions != nil {
		t.sections[instructions] = []node{{kind: text, text: strings.TrimSpace(strings.ToValidUTF8(string(o.Instructions), "\uFFFD")) + "\n"}}
	}
	return t, nil
}

func problem(file string, line int, hint, format string, args ...any) *trellis.Problem {
	return &trellis.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...), Hint: hint}
}
