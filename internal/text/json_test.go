package text_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/text"
)

func TestJSON(t *testing.T) {
	of := map[string]any{"a": "<&>", "b": []int{1}}
	line, err := text.JSON(of)
	if want := `{"a":"<&>","b":[1]}`; err != nil || string(line) != want {
		t.Errorf("on one line: %q, %v, want %q", line, err, want)
	}
	doc, err := text.Indented(of)
	if want := "{\n  \"a\": \"<&>\",\n  \"b\": [\n    1\n  ]\n}\n"; err != nil || string(doc) != want {
		t.Errorf("indented: %q, %v, want %q", doc, err, want)
	}
	if _, err := text.Indented(func() {}); err == nil {
		t.Error("a function has no JSON form")
	}
}
