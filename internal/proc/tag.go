package proc

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
)

// tag identifies the run and the call that a process came from, as the markers in its environment do. It is a number that
// processes inherit, whatever environment they are given, and however they leave their parents: see setTag. 0 means that there is
// none.
type tag uint64

const (
	tagBit   = 1 << 62 // tells a tag from a limit that people set
	callBits = 20
	runBits  = 62 - callBits
)

// callCount counts the calls of this process that got a tag.
var callCount atomic.Uint64

// newTag returns a different tag for every call. A call's number is used again after a million others.
func newTag(marker string) tag {
	return runTag(marker) | tag(callCount.Add(1)%(1<<callBits))
}

// runTag returns the part that all tags of a run have in common.
func runTag(marker string) tag {
	sum := sha256.Sum256([]byte(marker))
	run := binary.BigEndian.Uint64(sum[:]) % (1 << runBits)
	return tag(tagBit | run<<callBits)
}

// isOfRun reports whether the call belongs to the run.
func (t tag) isOfRun(run tag) bool { return t>>callBits == run>>callBits }
