package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	maxLine   = 8 << 20  // bytes of a line; a longer line is cut, since no event is that long
	maxKept   = 1 << 20  // capacity of the line buffer that is kept for the next line
	maxLog    = 64 << 20 // bytes of a file in RunDir; the rest is dropped, and the file ends with a remark about it
	maxOutput = 1 << 30  // bytes that a program may print in one run
)

// logs are the files of a run: the whole output of the program, with secrets masked.
type logs struct {
	redact *proc.Redactor
	stream io.WriteCloser // stream.jsonl
	stderr io.WriteCloser // stderr.log
	tail   *proc.Capped   // beginning and end of stderr
	mask   io.WriteCloser // writer for stderr, which masks secrets
}

func openLogs(dir string, secrets []string) (*logs, error) {
	l := &logs{redact: proc.NewRedactor(secrets), tail: proc.NewCapped(16 << 10)}
	var err error
	if l.stream, err = openLog(filepath.Join(dir, "stream.jsonl")); err != nil {
		return nil, err
	}
	if l.stderr, err = openLog(filepath.Join(dir, "stderr.log")); err != nil {
		l.stream.Close()
		return nil, err
	}
	l.mask = l.redact.Writer(io.MultiWriter(l.stderr, l.tail))
	return l, nil
}

// events returns a function that logs an event, then passes it to emit, which may be nil. If logging fails, the run is ended.
func (l *logs) events(emit func(Event), end func(error)) func(Event) {
	keep := json.NewEncoder(l.stream)
	return func(e Event) {
		if err := keep.Encode(e); err != nil {
			end(err)
		}
		if emit != nil {
			emit(e)
		}
	}
}

func (l *logs) close() error {
	return errors.Join(l.mask.Close(), l.stream.Close(), l.stderr.Close())
}

// logFile keeps up to maxLog bytes.
type logFile struct {
	file *os.File // not embedded: its other write methods would bypass the limit
	size int
	lost int // bytes that were dropped
}

func openLog(path string) (*logFile, error) {
	f, err := durable.OpenOwn(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keeping the agent's output: %w", err)
	}
	return &logFile{file: f}, nil
}

func (f *logFile) Write(data []byte) (int, error) {
	keep := data[:min(len(data), maxLog-f.size)]
	n, err := f.file.Write(keep)
	f.size += n
	f.lost += len(data) - len(keep)
	if err != nil {
		return n, fmt.Errorf("keeping the agent's output: %w", err)
	}
	return len(data), nil
}

func (f *logFile) Close() error {
	var err error
	if f.lost > 0 {
		_, err = fmt.Fprintf(f.file, "\n[... %d more bytes are not kept ...]\n", f.lost)
	}
	return errors.Join(err, f.file.Close())
}

// outputLimit limits the size of a program's output, both streams together.
type outputLimit struct {
	limit int64
	sum   atomic.Int64
	end   func(error)
}

// writer returns a writer that passes on to w what is within the limit, and ends the run when the limit is exceeded.
func (o *outputLimit) writer(w io.Writer) io.Writer { return &limitedWriter{o, w} }

type limitedWriter struct {
	*outputLimit
	w io.Writer
}

func (b *limitedWriter) Write(data []byte) (int, error) {
	if b.sum.Add(int64(len(data))) > b.limit {
		b.end(fail(trellis.AgentProtocol, "the program printed more than %d MiB", b.limit>>20))
		return len(data), nil
	}
	return b.w.Write(data)
}

// lineWriter splits a program's output into lines, masks secrets, logs each line and passes it on.
type lineWriter struct {
	redact  *proc.Redactor
	log     io.Writer
	onLine  func(line string) // receives a line without its line ending, in valid UTF-8
	rest    []byte
	printed bool // something was printed
}

func (l *lineWriter) Write(data []byte) (int, error) {
	n := len(data)
	l.printed = l.printed || n > 0
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			l.bufferLine(data)
			return n, nil
		}
		l.bufferLine(data[:end])
		if err := l.flush(); err != nil {
			return 0, err
		}
		data = data[end+1:]
	}
}

func (l *lineWriter) bufferLine(data []byte) {
	l.rest = append(l.rest, data[:min(len(data), maxLine-len(l.rest))]...)
}

// flush passes on the line that has been read so far.
func (l *lineWriter) flush() error {
	line := l.redact.String(strings.ToValidUTF8(string(append(l.rest, '\n')), "\uFFFD"))
	if l.rest = l.rest[:0]; cap(l.rest) > maxKept {
		l.rest = nil
	}
	if _, err := io.WriteString(l.log, line); err != nil {
		return err
	}
	l.onLine(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
	return nil
}

// end passes on the last line if it has no newline.
func (l *lineWriter) end() error {
	if len(l.rest) == 0 {
		return nil
	}
	return l.flush()
}
