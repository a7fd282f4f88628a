package mcpserver

import (
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
)

// maxPage is how many bytes the entries of a page may have: the rest of the answer needs room too.
const maxPage = maxAnswer - 5<<10

// fittingCount returns how many entries of a list, from the first on, are shown: up to most, in up to room bytes, but at least one.
func fittingCount[T any](list []T, most, room int) (n int, err error) {
	for n < len(list) && n < most {
		doc, err := answerJSON(list[n])
		if err != nil {
			return 0, err
		}
		if room -= len(doc) + 1; room < 0 && n > 0 {
			break
		}
		n++
	}
	return n, nil
}

// pageLimit returns how many entries a client asks for: usual if it does not say, and an error above most.
func pageLimit(asked, usual, most int) (int, error) {
	switch {
	case asked == 0:
		return usual, nil
	case asked < 0 || asked > most:
		return 0, app.Usagef("limit is a number from 1 to %d, not %d", most, asked)
	}
	return asked, nil
}

// cursor is a place in what is shown page by page; source says in what.
type cursor struct {
	source string
	offset int
}

func (c cursor) String() string { return c.source + ":" + strconv.Itoa(c.offset) }

// parseCursor parses what String returned. Clients take cursors from answers and don't make them.
func parseCursor(s, next string) (c cursor, err error) {
	i := strings.LastIndexByte(s, ':')
	if i >= 0 && len(s) < maxName {
		if c.offset, err = strconv.Atoi(s[i+1:]); err == nil && c.offset >= 0 {
			c.source = s[:i]
			return c, nil
		}
	}
	return c, app.WithHints(app.Usagef("the cursor is none that an answer had"), next+" without cursor")
}
