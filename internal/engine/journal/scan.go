package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// scanResult is the part of a journal that could be read.
type scanResult struct {
	ledger *ledger
	n      int    // number of records
	size   int64  // size of the records in bytes; the rest is a torn line
	prev   string // hash of the last record
}

// scan decodes the journal called name. If the error is not nil, it is an ErrDamaged, and the result is the part before the
// damage.
func scan(name string, data []byte) (scanResult, error) {
	got := scanResult{ledger: newLedger()}
	for rest := data; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if err := got.addLine(line, whole); err != nil {
			if len(after) == 0 && got.n > 0 && isTorn(line, whole) {
				return got, nil
			}
			return got, &DamagedError{name, got.n + 1, err}
		}
		rest = after
	}
	if got.n == 0 {
		return got, &DamagedError{name, 1, errors.New("it is empty")}
	}
	return got, nil
}

// isTorn reports whether the last line may be the rest of a write that a crash interrupted: it has no end, or only some of its
// pages reached the disk. The first line can't be torn, since the file is created together with it.
func isTorn(line []byte, whole bool) bool { return !whole || !json.Valid(line) }

func (g *scanResult) addLine(line []byte, whole bool) error {
	if !whole {
		return errors.New("the line has no end")
	}
	r := &record{}
	if err := json.Unmarshal(line, r); err != nil {
		return err
	}
	if r.N != g.n+1 {
		return fmt.Errorf("found record %d instead of %d", r.N, g.n+1)
	}
	if r.Prev != g.prev {
		return errors.New("the line before was changed, or another process wrote this one")
	}
	if err := g.ledger.add(r); err != nil {
		return err
	}
	g.n, g.size, g.prev = r.N, g.size+int64(len(line))+1, hash(line)
	return nil
}
