package pipeline

import (
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
)

// maxSaid is the maximum length of a note, and of the evidence for a criterion, in bytes.
const maxSaid = 400

// short cuts a text to maxSaid, so that it fits into a record beside others.
func short(s string) string { return text.Cut(s, maxSaid) }

// joinSome joins sentences, only the first of them if there are many.
func joinSome(said []string) string {
	if len(said) > 10 {
		said = append(said[:10:10], fmt.Sprintf("and %d more", len(said)-10))
	}
	return strings.Join(said, "; ")
}

// few shortens a list so that it fits into a record: the first paths, cut if they are long, and how many more there are.
func few(paths []string) []string {
	const most, long = 20, 200
	if len(paths) > most {
		paths = append(paths[:most:most], fmt.Sprintf("and %d more", len(paths)-most))
	}
	for i, p := range paths {
		paths[i] = text.Cut(p, long)
	}
	return paths
}

// tail returns the end of what a command printed, n bytes at most.
func tail(s string, n int) string {
	return text.Tail(strings.TrimSpace(strings.ToValidUTF8(s, "�")), n)
}
