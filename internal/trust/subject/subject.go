// Package subject says what of a checkout would run or steer, for package trust to judge: the project's settings, its tasks
// and its objectives. Each is read by the code that also reads it to run it.
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

// add adds an item, unless its text says nothing.
func add(list *[]trust.Item, kind trust.Kind, file string, line int, label, text string) {
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	if label != "" {
		text = label + ": " + text
	}
	*list = append(*list, trust.Item{Kind: kind, Text: text, File: file, Line: line})
}

// whole is a file of which every word counts.
func whole(kind trust.Kind, file string, data []byte) []trust.Item {
	if len(data) == 0 {
		return nil
	}
	return []trust.Item{{Kind: kind, Text: path.Base(file) + " " + trust.Digest(data), File: file}}
}

// programs are the words of a command that may name files of the checkout: those that a path has, and that stay in it.
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

// lineOf is the line of a JSON file that a text stands in, 0 when it can't be found.
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
