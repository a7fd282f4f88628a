package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
)

// maxText is the maximum length of a note, and of the evidence for a criterion, in bytes.
const maxText = 400

// shortText cuts a text to maxText, so that it fits into a record beside others.
func shortText(s string) string { return text.Cut(s, maxText) }

// joinFirst joins sentences, only the first of them if there are many.
func joinFirst(sentences []string) string {
	if len(sentences) > 10 {
		sentences = append(sentences[:10:10], fmt.Sprintf("and %d more", len(sentences)-10))
	}
	return strings.Join(sentences, "; ")
}

// shortList shortens a list so that it fits into a record: the first paths, cut if they are long, and how many more there are.
func shortList(paths []string) []string {
	const most, long = 20, 200
	list := slices.Clone(paths[:min(len(paths), most)])
	for i, p := range list {
		list[i] = text.Cut(p, long)
	}
	if len(paths) > most {
		list = append(list, fmt.Sprintf("and %d more", len(paths)-most))
	}
	return list
}

// tail returns the end of what a command printed, n bytes at most.
func tail(s string, n int) string {
	return text.Tail(strings.TrimSpace(strings.ToValidUTF8(s, "�")), n)
}
