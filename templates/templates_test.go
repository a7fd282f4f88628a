package templates_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/templates"
)

const nonce = "k3v9x2"

// sample returns a value for each slot of a template, except for those in skip; each value names its slot.
func sample(t *testing.T, name string, skip ...string) map[string]string {
	t.Helper()
	slots, err := templates.Slots(name)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]string{}
	for _, s := range slots {
		if !slices.Contains(skip, s.Name) {
			data[s.Name] = "[" + s.Name + "]"
		}
		if s.Data {
			data[s.Name] += "\nsecond line"
		}
	}
	for _, s := range skip {
		delete(data, s)
	}
	return data
}

func render(t *testing.T, name string, data map[string]string) templates.Prompt {
	t.Helper()
	p, err := templates.Render(name, data, nonce, templates.Override{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSlotsAreAllUsed(t *testing.T) {
	for _, name := range templates.Names() {
		p := render(t, name, sample(t, name))
		slots, _ := templates.Slots(name)
		if len(slots) == 0 {
			t.Errorf("%s declares no slots", name)
		}
		for _, s := range slots {
			n := strings.Count(p.Text+p.System, "["+s.Name+"]")
			if s.Data && n != 1 || n == 0 {
				t.Errorf("%s: slot %s stands in the prompt %d times", name, s.Name, n)
			}
			if s.Meaning == "" {
				t.Errorf("%s: slot %s has no meaning", name, s.Name)
			}
		}
	}
}

func TestEmptyOptionalSlotsVanishWithTheirHeading(t *testing.T) {
	for _, name := range templates.Names() {
		slots, _ := templates.Slots(name)
		var optional []string
		for _, s := range slots {
			if !s.Required {
				optional = append(optional, s.Name)
			}
		}
		full := render(t, name, sample(t, name))
		least := render(t, name, sample(t, name, optional...))
		for _, o := range optional {
			if strings.Contains(least.Text, "["+o+"]") || strings.Contains(least.Text, `name="`+o+`"`) {
				t.Errorf("%s: %s did not vanish", name, o)
			}
			data := sample(t, name)
			data[o] = " \n\t"
			if s := slots[slices.IndexFunc(slots, func(s templates.Slot) bool { return s.Name == o })]; !s.Data {
				data[o] = " "
			}
			if got := render(t, name, data); len(got.Text) >= len(full.Text)-len("["+o+"]") {
				t.Errorf("%s: a blank %s leaves something behind", name, o)
			}
		}
		for _, p := range []string{full.Text, least.Text, full.System} {
			if strings.Contains(p, "\n\n\n") || left(p) {
				t.Errorf("%s: gap or placeholder left in\n%s", name, p)
			}
		}
	}
}

// spoken removes the placeholders of a plan that the prompts mention.
var spoken = strings.NewReplacer("{{item}}", "", "{{callers}}", "", "{{file}}", "")

func left(prompt string) bool { return strings.Contains(spoken.Replace(prompt), "{{") }

func TestPhasesShareAPrefix(t *testing.T) {
	var prompts []templates.Prompt
	for _, name := range []string{"implement", "check", "debug"} {
		data := sample(t, name)
		data["artifacts"] = strings.Repeat("prd "+nonce, 1000)
		prompts = append(prompts, render(t, name, data))
	}
	first := prompts[0]
	if first.Shared < 4000 {
		t.Fatalf("shared prefix is %d bytes", first.Shared)
	}
	for _, p := range prompts[1:] {
		if p.System != first.System {
			t.Error("the system sections differ")
		}
		if p.Shared != first.Shared || p.Text[:p.Shared] != first.Text[:first.Shared] {
			t.Error("the prefixes differ")
		}
	}
	for _, name := range []string{"accept", "step", "heal"} {
		data := sample(t, name)
		data["artifacts"], data["plan"] = strings.Repeat("prd "+nonce, 1000), sample(t, "check")["plan"]
		p := render(t, name, data)
		if p.System != first.System {
			t.Errorf("the system section of %s is another one", name)
		}
		if p.Shared < 4000 || p.Text[:p.Shared] != first.Text[:p.Shared] {
			t.Errorf("of %s %d bytes are said to be shared, and are not", name, p.Shared)
		}
	}
	if p := render(t, "judge", sample(t, "judge")); p.Shared != 0 {
		t.Errorf("judge says it shares %d bytes", p.Shared)
	}
}

func TestWhatCallersGetWrong(t *testing.T) {
	ok := sample(t, "evaluate")
	with := func(k, v string) map[string]string {
		m := maps.Clone(ok)
		m[k] = v
		return m
	}
	for _, tt := range []struct {
		name  string
		data  map[string]string
		nonce string
		want  string
	}{
		{"evaluate", with("requirement", " \n"), nonce, "the slot requirement is empty"},
		{"evaluate", with("requirment", "x"), nonce, `there is no slot "requirment"`},
		{"evaluate", with("name", "a\nb"), nonce, "more than one line"},
		{"evaluate", ok, "", "nonce"},
		{"evaluate", ok, "a b", "nonce"},
		{"../evaluate", ok, nonce, "no such template"},
		{"parts/work", ok, nonce, "no such template"},
	} {
		_, err := templates.Render(tt.name, tt.data, tt.nonce, templates.Override{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Render(%s): got %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := templates.Render("nosuch", nil, nonce, templates.Override{}); !errors.Is(err, templates.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
}
