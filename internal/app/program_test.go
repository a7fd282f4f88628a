package app

import (
	"os/exec"
	"testing"
)

// The next command is taken from the last message that has one, and is the first of several.
func TestSaidBy(t *testing.T) {
	for out, want := range map[string]Output{
		"": {},
		"trellis: note is paused; next: trellis start note\n":                                                 {Says: "note is paused", Next: "trellis start note"},
		"trellis: warning: odd\ntrellis: next: mend it\ntrellis: note runs; next: trellis logs -f note\n":     {Says: "warning: odd; note runs", Next: "trellis logs -f note"},
		"trellis: nothing was pushed\ntrellis: next: git remote add origin URL\ntrellis: next: git push\n":    {Says: "nothing was pushed", Next: "git remote add origin URL"},
		"trellis: it runs; next: trellis logs note\ntrellis: next: trellis stop note\ntrellis: it runs\ntail": {Says: "it runs; tail", Next: "trellis logs note"},
	} {
		if got, err := ParseOutput(out, nil); got != want || err != nil {
			t.Errorf("%q: got %+v, %v, want %+v", out, got, err, want)
		}
		err := exec.Command("sh", "-c", "exit 3").Run()
		if _, err := ParseOutput(out, err); want.Next != "" && (err.Error() != want.Says || HintsOf(err)[0] != want.Next) {
			t.Errorf("%q: got %v, %q", out, err, HintsOf(err))
		}
	}
}
