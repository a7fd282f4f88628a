package pipeline

import (
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/text"
)

// maxSaid is how long one note may be, and the evidence of a criterion, in bytes.
const maxSaid = 400

// short is a text that fits into a record beside others.
func short(s string) string { return text.Cut(s, maxSaid) }

// joinSome joins sentences, the first of them when there are many.
func joinSome(said []string) string {
	if len(said) > 10 {
		said = append(said[:10:10], fmt.Sprintf("and %d more", len(said)-10))
	}
	return strings.Join(said, "; ")
}

// few is a list that fits into a record: the first paths, cut where they are long, and how many more there are.
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

// tail is the end of what a command said.
func tail(s string, n int) string {
	return text.Tail(strings.TrimSpace(strings.ToValidUTF8(s, "�")), n)
}
