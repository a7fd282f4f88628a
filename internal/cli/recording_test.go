package cli

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
)

// recorded is the recording of a terminal: https://docs.asciinema.org/manual/asciicast/v2.
const recorded = "../../docs/start/demo.cast"

// chunk is the output of one read.
type chunk struct {
	at   time.Duration // since the program began
	text string
}

// playDemo plays the demo on a terminal of 100×30.
func playDemo(t *testing.T) (list []chunk) {
	t.Helper()
	home, tmp := t.TempDir(), t.TempDir()
	cmd := exec.Command(realTrellis(t), "demo")
	cmd.Dir = tmp
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + tmp, "TERM=xterm-256color", "LC_ALL=C.UTF-8", "TZ=UTC"}
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	began, rest := time.Now(), ""
	for data := make([]byte, 32<<10); ; {
		n, err := screen.Read(data)
		whole := rest + string(data[:n])
		rest = ""
		for !utf8.ValidString(whole) && len(rest) < utf8.UTFMax { // a character that is not complete yet
			rest, whole = whole[len(whole)-1:]+rest, whole[:len(whole)-1]
		}
		if whole != "" {
			list = append(list, chunk{time.Since(began), strings.ReplaceAll(whole, tmp, "/tmp")})
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO) { // Linux reports the end of a terminal as EIO
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return list
}

// cast returns a recording of chunks. It pauses before each command and each title, so that people can read.
func cast(list []chunk) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(map[string]any{"version": 2, "width": 100, "height": 30, "title": "trellis demo", "env": map[string]string{"TERM": "xterm-256color"}})
	var rest time.Duration
	for _, c := range list {
		parts := regexp.MustCompile(`(?m)^(\$ |── )`).ReplaceAllString(c.text, "\x00$1")
		for i, part := range strings.Split(parts, "\x00") {
			if i > 0 {
				rest += 1200 * time.Millisecond
			}
			if part != "" {
				at := math.Round((c.at+rest).Seconds()*1000) / 1000
				err = errors.Join(err, e.Encode([]any{at, "o", part}))
			}
		}
	}
	return b.String(), err
}

// The recording in docs shows the commands and titles of the demo, and its picture is drawn from it.
func TestRecordedTerminal(t *testing.T) {
	t.Parallel()
	list := playDemo(t)
	if os.Getenv("TRELLIS_UPDATE_DOCS") != "" {
		text, err := cast(list)
		if err == nil {
			err = os.WriteFile(recorded, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var was, now strings.Builder
	last, shown := 0.0, &drawing{width: 100}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if i == 0 {
			var head struct{ Version, Width, Height int }
			if err := json.Unmarshal([]byte(line), &head); err != nil || head.Version != 2 || head.Width != 100 || head.Height != 30 {
				t.Fatalf("the recording begins with %s, %v", line, err)
			}
			continue
		}
		var event []any
		if err := json.Unmarshal([]byte(line), &event); err != nil || len(event) != 3 || event[1] != "o" {
			t.Fatalf("line %d is not output: %s, %v", i+1, line, err)
		}
		at, timed := event[0].(float64)
		text, printed := event[2].(string)
		if !timed || !printed || at < last {
			t.Fatalf("line %d: %s", i+1, line)
		}
		last = at
		was.WriteString(text)
		shown.write(text, at)
	}
	for _, c := range list {
		now.WriteString(c.text)
	}
	keepPicture(t, strings.TrimSuffix(recorded, ".cast")+".svg", shown.picture(30, "A recorded terminal: trellis demo", true))
	want, got := staying(now.String()), staying(was.String())
	if len(want) < 20 || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the recording (TRELLIS_UPDATE_DOCS=1 makes another) shows\n%s\nthe demo\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// staying returns the commands and titles of the demo.
func staying(screen string) (list []string) {
	screen = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`).ReplaceAllString(screen, "")
	for line := range strings.SplitSeq(strings.ReplaceAll(screen, "\r", ""), "\n") {
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "── ") {
			list = append(list, regexp.MustCompile(`trellis-demo-\d+`).ReplaceAllString(line, "trellis-demo-N"))
		}
	}
	return mask(list)
}
