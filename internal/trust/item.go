package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ID identifies an item in the ledger: a hash of its kind and its normalised text, or the hash of a commit. For a decision,
// and for when a task may run, the file counts too: whoever approved one task has not approved another.
func (i Item) ID() string {
	if i.Kind == CommitKind {
		commit, _, _ := strings.Cut(i.Text, " ")
		return commit
	}
	text := string(i.Kind) + "\x00" + normalise(i.Text)
	if i.Kind == Approval || i.Kind == Start {
		text += "\x00" + i.File
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// normalise removes what means nothing to whatever runs or reads a text, and what git itself changes in files that it checks
// out: the kind of line ends, space around the text, and the value of $Id$.
func normalise(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if strings.Contains(text, "$Id:") {
		text = ident().ReplaceAllString(text, "$$Id$$")
	}
	return text
}

var ident = trellis.Pattern(`\$Id:[^$\n]*\$`)

// Shown returns the part of an item that people are shown: all that would run. The JSON with the other fields of a step is cut off.
func (i Item) Shown() string {
	if n := strings.LastIndex(i.Text, "\n{"); n > 0 && (i.Kind == Step || i.Kind == Prompt) {
		return i.Text[:n]
	}
	return i.Text
}

// settingName returns the name of the setting to which a Protection, or a task's Start, gives a value, "" for all other items.
func (i Item) settingName() string {
	name, _, valued := strings.Cut(i.Text, ": ")
	switch {
	case i.Kind == Protection:
		return name
	case i.Kind == Start && valued:
		return i.File + " " + name
	}
	return ""
}

// Digest returns a hash to stand for a text that is too long for an item.
func Digest(data []byte) string {
	sum := sha256.Sum256([]byte(normalise(string(data))))
	return "sha256:" + hex.EncodeToString(sum[:])
}
