package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// turnBuilder assembles a turn from the pieces in which it is streamed.
type turnBuilder struct {
	text        strings.Builder
	explanation strings.Builder
	calls       []*callPieces
}

type callPieces struct {
	index    int64
	id, name string
	input    strings.Builder
}

func (b *turnBuilder) beginCall(id, name string) {
	b.calls = append(b.calls, &callPieces{id: id, name: name})
}

// addInput appends to the input of the last call.
func (b *turnBuilder) addInput(piece string) {
	if len(b.calls) > 0 {
		b.calls[len(b.calls)-1].input.WriteString(piece)
	}
}

// addCallPiece adds to the call with the given index. Some servers give all calls the same index, so a different id starts another
// call.
func (b *turnBuilder) addCallPiece(index int64, id, name, input string) {
	var last *callPieces
	for _, c := range b.calls {
		if c.index == index {
			last = c
		}
	}
	if last == nil || id != "" && last.id != "" && id != last.id {
		b.beginCall(id, name)
		last = b.calls[len(b.calls)-1]
		last.index = index
	} else if last.name == "" {
		last.name = name
	}
	last.input.WriteString(input)
}

// answerTooLong returns the failure of an answer of more than maxAnswer bytes, nil for a shorter one.
func (b *turnBuilder) answerTooLong() error {
	size := b.text.Len() + b.explanation.Len()
	for _, c := range b.calls {
		size += len(c.id) + len(c.name) + c.input.Len()
	}
	if size <= maxAnswer {
		return nil
	}
	return fail(trellis.AgentProtocol, "the answer is longer than %d MiB", maxAnswer>>20)
}

// finish fills t. A call whose input is not a JSON object gets an empty one, since protocols refuse to take it back otherwise.
// err is how the exchange ended; it is ignored once the model has given a stop reason, because the answer is then complete.
func (b *turnBuilder) finish(t *turn, err error) error {
	t.text, t.explanation = b.text.String(), b.explanation.String()
	for n, c := range b.calls {
		c.id = cmp.Or(c.id, fmt.Sprintf("call_%d", n+1))
		input := strings.TrimSpace(c.input.String())
		if !isObject(input) {
			input = "{}"
		}
		t.calls = append(t.calls, toolCall{ID: c.id, Name: c.name, Input: json.RawMessage(input)})
	}
	if t.stop != "" {
		err = nil
	}
	return cmp.Or(err, b.answerTooLong())
}
