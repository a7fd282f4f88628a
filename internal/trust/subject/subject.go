// Package subject reads what in a checkout would run or steer something, for package trust to judge: the project's settings,
// its tasks and its objectives. Each is read by the same code that reads it to run it.
package subject

import (
	"bytes"
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trust"
)

// add adds an item, unless its text is empty.
func add(list *[]trust.Item, kind trust.Kind, file string, line int, label, text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	if label != "" {
		text = label + ": " + text
	}
	*list = append(*list, trust.Item{Kind: kind, Text: text, File: file, Line: line})
}

// wholeFile returns the item of a file in which every word counts.
func wholeFile(kind trust.Kind, file string, data []byte) []trust.Item {
	if len(data) == 0 {
		return nil
	}
	return []trust.Item{{Kind: kind, Text: path.Base(file) + " " + trust.Digest(data), File: file}}
}

// programs returns the words of a command that may name files of the checkout: those that look like a path, and stay in the checkout.
func programs(words ...string) (files []string) {
	const most = 20
	for _, word := range words {
		for _, w := range strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`;&|<>()$={}", r) }) {
			p := path.Clean(filepath.ToSlash(w))
			if filepath.IsLocal(p) && strings.ContainsAny(p, "./") && p != "." && !slices.Contains(files, p) && len(files) < most {
				files = append(files, p)
			}
		}
	}
	return files
}

// lineOf returns the line of a JSON file that has a text in it, 0 if it can't be found.
func lineOf(data []byte, text string) int {
	quoted, err := json.Marshal(text)
	if err != nil || text == "" {
		return 0
	}
	n := bytes.Index(data, quoted)
	if n < 0 {
		return 0
	}
	return bytes.Count(data[:n], []byte("\n")) + 1
}
