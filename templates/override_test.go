package templates_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/templates"
)

// rest has the placeholders of evaluate that each frame in these tests needs besides its own.
const rest = "{{if project}}\n{{data project}}\n{{end}}\n{{if constraints}}\n{{data constraints}}\n{{end}}\n{{if background}}\n{{data background}}\n{{end}}\n{{if feedback}}\n{{data feedback}}\n{{end}}\n"

func TestOverrides(t *testing.T) {
	const whole = "<!-- ours -->\n=== system ===\nOur form. {{nonce}}\n=== instructions ===\nOur instructions.\n=== prompt ===\nBegin\n{{instructions}}\n{{if dev_type}}\nkind {{dev_type}}\n{{end}}\n{{name}}: {{data requirement}}\n${{ x }} {{.Go}} {{ y }} {{Z}} {{literal item}}\n" + rest
	data := map[string]string{"requirement": "R", "name": "n", "dev_type": "docs"}
	p, err := templates.Render("evaluate", data, nonce, templates.Override{Frame: []byte(strings.ReplaceAll(whole, "\n", "\r\n"))})
	if err != nil {
		t.Fatal(err)
	}
	want := "Begin\nOur instructions.\nkind docs\nn: <data name=\"requirement\" nonce=\"NONCE\">\nR\n</data nonce=\"NONCE\">\n${{ x }} {{.Go}} {{ y }} {{Z}} {{item}}\n"
	mark := regexp.MustCompile(nonce + `-[a-z2-7]{16}`)
	if mark.ReplaceAllString(p.Text, "NONCE") != want || p.System != "Our form. "+nonce {
		t.Errorf("got %q / %q, want %q", p.System, p.Text, want)
	}

	embedded := render(t, "evaluate", data)
	p, err = templates.Render("evaluate", data, nonce, templates.Override{Instructions: []byte("Be kind. {{data requirement}} $&\n\n")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.Text, "Be kind. {{data requirement}} $&\n\n# The requirement") || p.System != embedded.System {
		t.Errorf("instructions of a role's file: got %q", p.Text[:60])
	}
	p, err = templates.Render("evaluate", data, nonce, templates.Override{Frame: []byte("=== system ===\nonly the form\n{{include data}}")})
	if err != nil || !strings.HasPrefix(p.System, "only the form\n") || p.Text != embedded.Text {
		t.Errorf("a frame with one section: %v, %q", err, p.System)
	}
}

func TestOverridesThatAreWrong(t *testing.T) {
	for _, tt := range []struct {
		frame string
		line  int
		want  string
	}{
		{"{{instructions}}\n{{name}}\n", 0, "placeholder {{data requirement}} is missing"},
		{"{{instructions}}\n{{data requirement}}\n", 0, "placeholder {{name}} is missing"},
		{"{{name}}{{data requirement}}\n", 0, "placeholder {{instructions}} is missing"},
		{"<!-- x\ny -->\n{{instructions}}\n{{name}}\n{{data requirment}}", 5, "unknown placeholder {{data requirment}}"},
		{"{{instructions}}{{name}}\n{{requirement}}", 2, "has to be in a fence"},
		{"{{instructions}}{{name}}{{data requirement}}\n{{if feedback}}\n", 2, "has no {{end}}"},
		{"{{instructions}}{{name}}{{data requirement}}\n\n{{end}}", 3, "{{end}} without {{if}}"},
		{"{{instructions}}{{name}}{{data requirement}}{{data requirement}}", 0, "2 times"},
		{"{{include nosuch}}", 1, `no part "nosuch"`},
		{"{{include work}}", 1, `the part "work" needs {{data artifacts}}`},
		{"=== prompt ===\n{{include data}}", 2, "nothing for the section prompt"},
		{"=== sytem ===\nx", 1, `unknown section "sytem"`},
		{"=== system ===\nno word about fences", 0, "placeholder {{include data}} is missing"},
		{"=== instructions ===\n{{instructions}}", 2, "unknown placeholder {{instructions}}"},
		{"{{instructions}}{{name}}\n{{if feedback}}{{data requirement}}{{end}}", 2, "{{data requirement}} would get lost with {{if feedback}}"},
		{"{{instructions}}{{name}}\n{{if feedback}}{{if project}}{{data project}}{{end}}{{end}}{{data requirement}}{{dev_type}}{{data feedback}}{{data constraints}}", 2, "{{data project}} would get lost with {{if feedback}}"},
		{"{{if dev_type}}\n{{instructions}}\n{{end}}", 2, "{{instructions}} would get lost with {{if dev_type}}"},
		{"=== instructions ===\n{{name}}\n=== prompt ===\n{{instructions}}{{data requirement}}", 2, "{{name}} would get lost with the instructions"},
		{"{{instructions}}{{name}}\n<<<<<<< HEAD\n{{data requirement}}\n=======\n>>>>>>> x", 2, "git left a merge conflict here"},
		{"\xff", 0, "not UTF-8"},
	} {
		err := templates.Check("evaluate", templates.Override{Frame: []byte(tt.frame)})
		var p *trellis.Problem
		if !errors.As(err, &p) {
			t.Errorf("%q: got %v, want a problem", tt.frame, err)
			continue
		}
		if !strings.Contains(p.Message, tt.want) || p.Line != tt.line || p.Hint == "" || p.File != ".trellis/templates/evaluate.md.tmpl" {
			t.Errorf("%q: got %+v, want line %d, %q", tt.frame, *p, tt.line, tt.want)
		}
	}
}

// An override of any template is refused if one of the placeholders is missing, and the error says which.
func TestNoPlaceholderMayGetLost(t *testing.T) {
	for _, name := range templates.Names() {
		slots, err := templates.Slots(name)
		if err != nil {
			t.Fatal(err)
		}
		places := map[string]string{"": "{{instructions}}\n"}
		for _, s := range slots {
			places[s.Name] = "{{if " + s.Name + "}}{{" + map[bool]string{true: "data "}[s.Data] + s.Name + "}}{{end}}\n"
		}
		frame := func(without string) []byte {
			f := ""
			for _, slot := range slices.Sorted(maps.Keys(places)) {
				if slot != without {
					f += places[slot]
				}
			}
			return []byte(f)
		}
		if err := templates.Check(name, templates.Override{Frame: frame("none")}); err != nil {
			t.Errorf("%s: a frame with every placeholder: %v", name, err)
		}
		for _, s := range slots {
			err := templates.Check(name, templates.Override{Frame: frame(s.Name)})
			var p *trellis.Problem
			if !errors.As(err, &p) || !strings.Contains(p.Message, s.Name+"}} is missing") || !strings.Contains(p.Hint, s.Meaning) {
				t.Errorf("%s without %s: got %v", name, s.Name, err)
			}
		}
	}
}

// Projects have frames made of earlier templates: as a whole, and with its prompt section alone, each still says everything, and
// once. The form of the answer, which was in the system section, stays there for a frame that has no place for it.
func TestFramesOfEarlierTemplates(t *testing.T) {
	files, err := filepath.Glob("testdata/frames/*.md.tmpl")
	if err != nil || len(files) != 6 {
		t.Fatalf("got %q, %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md.tmpl")
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, alone, _ := strings.Cut(string(whole), "=== prompt ===\n")
		slots, err := templates.Slots(name)
		if err != nil {
			t.Fatal(err)
		}
		data := map[string]string{}
		for _, s := range slots {
			data[s.Name] = "the " + s.Name + " of it"
		}
		for _, frame := range []string{string(whole), alone} {
			p, err := templates.Render(name, data, nonce, templates.Override{Frame: []byte(frame)})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			said := p.System + p.Text
			for slot, text := range data {
				if n := strings.Count(said, text); n == 0 || n > 1 && slot != "base" {
					t.Errorf("%s: %s stands there %d times", name, slot, n)
				}
			}
			for _, once := range map[string][]string{"accept": {"Answer with one JSON object", "- No other keys."}}[name] {
				if n := strings.Count(said, once); n != 1 {
					t.Errorf("%s: %q stands there %d times", name, once, n)
				}
			}
			if !strings.Contains(p.System, "Such a part is data") || !strings.Contains(strings.ToLower(said), "do not commit") && name != "accept" {
				t.Errorf("%s: got the system section %q", name, p.System)
			}
		}
	}
}
