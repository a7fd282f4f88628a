package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// boardProcess is a running `trellis board`.
type boardProcess struct {
	cmd      *exec.Cmd
	url, key string
}

// startBoard starts the board.
func (s *site) startBoard() (*boardProcess, error) {
	v := &boardProcess{cmd: s.command(s.b.trellis, "board", "--port", "0")}
	out, err := v.cmd.StdoutPipe()
	if err == nil {
		err = v.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting trellis board: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("trellis board does not say where it is: %w", err), v.stop())
	}
	v.url, v.key, _ = strings.Cut(strings.TrimSpace(line), "/#")
	return v, nil
}

// stop ends the board. The exit code is not checked, since it is not 0 after a signal.
func (v *boardProcess) stop() error {
	err := v.cmd.Process.Signal(syscall.SIGTERM)
	if ended := v.cmd.Wait(); !errors.As(ended, new(*exec.ExitError)) {
		err = errors.Join(err, ended)
	}
	return err
}

// get requests a page as the board's script does.
func (v *boardProcess) get(path string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, v.url+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+v.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("asking for %s: %s: %s", path, res.Status, body)
	}
	return string(body), err
}

// board measures the board with many tasks in a browser, and the resources for a long log and a long diff.
func (b *bench) board(many, small *site, what string, over time.Duration) error {
	size, err := os.Stat(b.trellis)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{name: "size of the program", unit: "MB", samples: []float64{float64(size.Size()) / (1 << 20)}})
	v, err := many.startBoard()
	if err != nil {
		return err
	}
	name := "trellis board, " + what
	err = errors.Join(b.inBrowser(many, v, name, over), v.addPeakMemory(b, name+": memory at most"), v.stop())
	if err != nil {
		return err
	}
	return errors.Join(b.longLog(small), b.longDiff(small))
}

// addPeakMemory adds the peak memory of the board so far.
func (v *boardProcess) addPeakMemory(b *bench, name string) error {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		b.logf("left out: %s, which is looked at through /proc", name)
		return nil
	}
	most, err := megabytes(v.cmd.Process.Pid, "status", "VmHWM")
	b.rows = append(b.rows, row{name: name, unit: "MB", p99: 150, samples: []float64{most}})
	return err
}

// longLog measures the memory for a long log.
func (b *bench) longLog(s *site) error {
	id, err := s.addTask()
	if err == nil {
		err = s.run(b.trellis, "start", id)
	}
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(s.tasks(), id, "run", "*", "implement*", "*", "stream.jsonl"))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("there is no stream of %s: %w", id, err)
	}
	f, err := os.OpenFile(found[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	lines := strings.Repeat(strings.Repeat("x", 1023)+"\n", 1024)
	for range b.logMegabytes {
		if _, err := f.WriteString(lines); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	v, err := s.startBoard()
	if err != nil {
		return err
	}
	page, err := v.get("/v/task/" + id + "/log")
	if err == nil && !strings.Contains(page, "xxxx") {
		err = fmt.Errorf("the log of %s is not shown: %s", id, page)
	}
	return errors.Join(err, v.addPeakMemory(b, fmt.Sprintf("trellis board, a log of %d MB: memory at most", b.logMegabytes)), v.stop())
}

// longDiff measures the memory for a long diff.
func (b *bench) longDiff(s *site) error {
	var text strings.Builder
	for i := range b.diffLines {
		fmt.Fprintf(&text, "func f%d() string { return \"line\" }\n", i)
	}
	base, err := s.output("git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	const id = "02-01-long"
	for _, step := range []func() error{
		func() error { return s.run("git", "checkout", "-q", "-b", "feature/long") },
		func() error { return s.write("long.go", "package long\n\n"+text.String()) },
		func() error { return s.run("git", "add", "long.go") },
		func() error { return s.run("git", "commit", "-q", "-m", "long") },
		func() error { return s.run("git", "checkout", "-q", "-") },
		func() error {
			return s.write(".trellis/tasks/"+id+"/task.json", fmt.Sprintf(`{"title": "Long", "name": "long", "status": "review", "branch": "feature/long", "pipeline": {"base_commit": %q}}`, base))
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	v, err := s.startBoard()
	if err != nil {
		return err
	}
	path, seen := "/v/task/"+id+"/diff", 0
	for path != "" && err == nil {
		var page string
		page, err = v.get(path)
		seen += strings.Count(page, ">func<")
		_, rest, _ := strings.Cut(page, `<p><a href="/task/`+id+`/diff?`)
		query, _, more := strings.Cut(rest, `"`)
		if path = ""; more {
			path = "/v/task/" + id + "/diff?" + strings.ReplaceAll(query, "&amp;", "&")
		}
	}
	if err == nil && seen != b.diffLines {
		err = fmt.Errorf("the diff of %d lines shows %d", b.diffLines, seen)
	}
	return errors.Join(err, v.addPeakMemory(b, fmt.Sprintf("trellis board, a diff of %d lines: memory at most", b.diffLines)), v.stop())
}

// output returns the first line that a program prints when run in the main checkout.
func (s *site) output(name string, args ...string) (string, error) {
	out, err := s.command(name, args...).Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line, err
}
