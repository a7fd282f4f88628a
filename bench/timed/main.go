// Command timed runs a shell command, and logs its kind, the times of its beginning and end in nanoseconds of the clock, and
// the processor time that it took in nanoseconds. It exits with the command's exit code.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

func main() {
	code, err := run(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "timed:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(log, kind, line string) (code int, err error) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	began := time.Now().UnixNano()
	err = cmd.Run()
	ended := time.Now().UnixNano()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = exit.ExitCode(), nil
	}
	if err != nil {
		return code, fmt.Errorf("running %q: %w", line, err)
	}
	took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return code, err
	}
	_, err = fmt.Fprintln(f, kind, began, ended, int64(took))
	return code, errors.Join(err, f.Close())
}
