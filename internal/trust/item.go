package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ID is what an item is known by in the ledger: a hash of its kind and its normalised text, or that of a commit. That of a
// decision, and of when a task may run, has its file too: who said yes to one task has not said so to another.
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

// normalise takes away what means nothing to whatever runs or reads a text, and what git itself writes into files that it
// checks out: how lines end, space around it, and the value of $Id$.
func normalise(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if strings.Contains(text, "$Id:") {
		text = ident().ReplaceAllString(text, "$$Id$$")
	}
	return text
}

var ident = trellis.Pattern(`\$Id:[^$\n]*\$`)

// Shown is what people are shown of an item: all that would run. Below that a step says its other fields, as JSON.
func (i Item) Shown() string {
	if n := strings.LastIndex(i.Text, "\n{"); n > 0 && (i.Kind == Step || i.Kind == Prompt) {
		return i.Text[:n]
	}
	return i.Text
}

// name is that of the setting which a Protection, or a task's Start, gives a value, "" for all other items.
func (i Item) name() string {
	name, _, valued := strings.Cut(i.Text, ": ")
	switch {
	case i.Kind == Protection:
		return name
	case i.Kind == Start && valued:
		return i.File + " " + name
	}
	return ""
}

// Digest is a short name for a text that is too long to be an item's.
func Digest(data []byte) string {
	sum := sha256.Sum256([]byte(normalise(string(data))))
	return "sha256:" + hex.EncodeToString(sum[:])
}
