package git

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// FindTrailer is the newest commit that tip has and base has not, and that carries the trailer
// ("Key: value"); "" when there is none. With base "" it may have to read a long history.
func (r History) FindTrailer(ctx context.Context, base, tip, trailer string) (string, error) {
	if tip == base {
		return "", nil // git would take some milliseconds to say the same
	}
	args := []string{"log", "-z", "--no-show-signature", "--format=%H%x00%(trailers:only,unfold)", "--fixed-strings", "--grep=" + trailer, "--end-of-options", tip}
	if base != "" {
		args = append(args, "^"+base)
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: append(args, "--")})
	if err != nil || out == "" {
		return "", err
	}
	const fields = 2
	f := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if len(f)%fields != 0 {
		return "", fmt.Errorf("reading git log: %d fields are not %d each", len(f), fields)
	}
	for e := range slices.Chunk(f, fields) {
		if slices.Contains(strings.Split(strings.TrimSpace(e[1]), "\n"), trailer) {
			return e[0], nil
		}
	}
	return "", nil
}

// Says is the newest commit that tip has and base has not, and whose message has a line that ends in the text; "" when there
// is none.
func (r History) Says(ctx context.Context, base, tip, text string) (string, error) {
	pattern := regexp.QuoteMeta(text) + "[[:space:]]*$"
	return r.Line(ctx, Command{Dir: r.Main, Args: []string{"rev-list", "--max-count=1", "--extended-regexp", "--grep=" + pattern, "--end-of-options", tip, "^" + base, "--"}})
}

// Ahead is how many commits tip has that other has not.
func (r History) Ahead(ctx context.Context, other, tip string) (int, error) {
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"rev-list", "--count", "--end-of-options", tip, "^" + other, "--"}})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// IsAncestor reports whether commit old is commit tip or in its history.
func (r History) IsAncestor(ctx context.Context, old, tip string) (bool, error) {
	if r.near(old, tip) {
		return true, nil
	}
	_, code, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"merge-base", "--is-ancestor", "--end-of-options", old, tip}, Accept: []int{1}})
	return code == 0 && err == nil, err
}
