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
	maxLine   = 8 << 20  // a longer line is cut: no event is that long
	maxKept   = 1 << 20  // of the room for a line, for the next one
	maxLog    = 64 << 20 // of a file in RunDir; what comes after is not kept, and the file ends with a word about it
	maxOutput = 1 << 30  // that a program may print in one run
)

// logs are the files of a run: all that the program printed, secrets masked.
type logs struct {
	redact *proc.Redactor
	stream io.WriteCloser // stream.jsonl
	stderr io.WriteCloser // stderr.log
	tail   *proc.Capped   // the last of stderr
	mask   io.WriteCloser // where stderr is written to
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

// events keeps events before it hands them on to emit, which may be nil. A run whose events can't be kept is ended.
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
	file *os.File // not embedded: its other ways to be written to know no bound
	size int
	lost int // bytes that are not kept
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

// output bounds what a program prints, on both streams together.
type output struct {
	most int64
	sum  atomic.Int64
	end  func(error)
}

// writer passes on to w what is within bounds, and ends the run at what is not.
func (o *output) writer(w io.Writer) io.Writer { return &bounded{o, w} }

type bounded struct {
	*output
	w io.Writer
}

func (b *bounded) Write(data []byte) (int, error) {
	if b.sum.Add(int64(len(data))) > b.most {
		b.end(fail(trellis.AgentProtocol, "the program printed more than %d MiB", b.most>>20))
		return len(data), nil
	}
	return b.w.Write(data)
}

// lines cuts what a program prints into lines, masks secrets, keeps it, and hands it on.
type lines struct {
	redact *proc.Redactor
	log    io.Writer
	take   func(line string) // a line without its end, valid UTF-8
	rest   []byte
	any    bool // something was printed
}

func (l *lines) Write(data []byte) (int, error) {
	n := len(data)
	l.any = l.any || n > 0
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			l.keep(data)
			return n, nil
		}
		l.keep(data[:end])
		if err := l.flush(); err != nil {
			return 0, err
		}
		data = data[end+1:]
	}
}

func (l *lines) keep(data []byte) {
	l.rest = append(l.rest, data[:min(len(data), maxLine-len(l.rest))]...)
}

// flush hands on the line that is being read.
func (l *lines) flush() error {
	line := l.redact.String(strings.ToValidUTF8(string(append(l.rest, '\n')), "\uFFFD"))
	if l.rest = l.rest[:0]; cap(l.rest) > maxKept {
		l.rest = nil
	}
	if _, err := io.WriteString(l.log, line); err != nil {
		return err
	}
	l.take(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
	return nil
}

// end hands on a last line that was not ended.
func (l *lines) end() error {
	if len(l.rest) == 0 {
		return nil
	}
	return l.flush()
}
