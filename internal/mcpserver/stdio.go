package mcpserver

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stdio returns the transport to a client that writes to in and reads from out. Neither is closed.
// A line that is not a message is answered with an error, and the lines after it are read.
func Stdio(in io.Reader, out io.Writer) mcp.Transport {
	answers := &answerWriter{Writer: out}
	return &mcp.IOTransport{Reader: io.NopCloser(&messageReader{in: bufio.NewReader(in), answers: answers}), Writer: answers}
}

// answerWriter is what a client reads, a line for each Write. Several goroutines may write at once.
type answerWriter struct {
	io.Writer
	mu sync.Mutex
}

func (a *answerWriter) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Writer.Write(line)
}

func (a *answerWriter) Close() error { return nil }

// refuse answers an invalid line with an error. Nobody can tell which call the line belongs to, so the error has no id.
func (a *answerWriter) refuse(code int, why error) error {
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": why.Error()}})
	if err == nil {
		_, err = a.Write(append(line, '\n'))
	}
	return err
}

// messageReader reads the lines of a client that are messages.
type messageReader struct {
	in      *bufio.Reader
	answers *answerWriter
	unread  []byte // the rest of a message that was read in part
}

func (m *messageReader) Read(p []byte) (int, error) {
	for len(m.unread) == 0 {
		line, err := m.line()
		if len(bytes.TrimSpace(line)) > 0 {
			code, why := lineError(line)
			if why == nil {
				m.unread = line
				break
			}
			err = cmp.Or(m.answers.refuse(code, why), err)
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, m.unread)
	m.unread = m.unread[n:]
	return n, nil
}

// line returns the next line with its end. Of a line that is too long it returns a part, which is longer than messages may be.
func (m *messageReader) line() (line []byte, err error) {
	for {
		part, err := m.in.ReadSlice('\n')
		if len(line) <= mcp.DefaultMaxLineLength {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// lineError returns why a line is neither a message nor a list of messages, or nil.
func lineError(line []byte) (code int, why error) {
	if len(line) > mcp.DefaultMaxLineLength {
		return jsonrpc.CodeInvalidRequest, fmt.Errorf("a line is longer than %d bytes", mcp.DefaultMaxLineLength)
	}
	if !json.Valid(line) {
		return jsonrpc.CodeParseError, errors.New("a line is not valid JSON; a message is one line of it")
	}
	var list []json.RawMessage
	if json.Unmarshal(line, &list) != nil {
		list = []json.RawMessage{line}
	}
	if len(list) == 0 {
		return jsonrpc.CodeInvalidRequest, errors.New("a list of messages is empty")
	}
	for _, one := range list {
		if _, err := jsonrpc.DecodeMessage(one); err != nil {
			return jsonrpc.CodeInvalidRequest, fmt.Errorf("a line is not a message: %w", err)
		}
	}
	return 0, nil
}
