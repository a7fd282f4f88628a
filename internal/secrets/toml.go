package secrets

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// document is the part of a gitleaks configuration that is read.
type document struct {
	Extend struct {
		Path, URL     string
		DisabledRules []string
	}
	Rules      []*rule
	Allowlist  *allowlist // the old form of Allowlists
	Allowlists []*allowlist
}

func parse(text string) (d document, err error) {
	if _, err = toml.Decode(text, &d); err != nil {
		err = errors.New(strings.TrimPrefix(err.Error(), "toml: "))
	}
	return d, err
}

const (
	maxTOML  = 1 << 20 // bytes of a document
	maxNames = 1 << 24 // bytes of the longest line, times the number of names: the library stores names with those of the tables around them
	maxDeep  = 32      // depth of nested values
)

// tomlTokens matches what nests in TOML, what ends a name, and strings and comments as a whole.
var tomlTokens = trellis.Pattern(`(?s)"""(?:\\.|.)*?"{3,5}|'''.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|[][{}.,=\n]`)

// checkBounds returns an error for a document that would cost the library too much, which has no limits of its own.
func checkBounds(text string) error {
	longest := 0
	for line := range strings.Lines(text) {
		longest = max(longest, len(line))
	}
	if len(text) > maxTOML || longest*strings.Count(text, "=") > maxNames {
		return errors.New("it is too large")
	}
	open, dots := 0, 0
	for _, at := range tomlTokens().FindAllStringIndex(text, -1) {
		switch text[at[0]:at[1]] {
		case "[", "{":
			open++
		case "]", "}":
			open--
		case ".":
			dots++
		case ",", "=", "\n":
			dots = 0
		}
		if open+dots > maxDeep {
			return fmt.Errorf("line %d: values within more than %d values", 1+strings.Count(text[:at[0]], "\n"), maxDeep)
		}
	}
	return nil
}
