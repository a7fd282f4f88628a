// Package faults kills the real command, or makes its disk fail, at every step that an undisturbed run of it does on
// the disk, and starts it again: it has to end as if nothing had happened.
//
// The steps are not listed anywhere: an undisturbed run logs them. `go test ./faults` tries a spread of them, and with
// FAULTS_FULL=1 all; `make soak` kills at random for as long as asked.
package faults

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/programtest"
)

// program is the command on a disk that can be made to fail: the test binary of internal/cli, whose faulty_test.go says how.
var program string

// full reports whether everything is to be tried, instead of a spread of it.
func full() bool { return os.Getenv("FAULTS_FULL") != "" }

// half returns every second element of a list, beginning with index from, or the whole list if everything is to be tried.
func half[V any](list []V, from int) (some []V) {
	if full() {
		return list
	}
	for i := from; i < len(list); i += 2 {
		some = append(some, list[i])
	}
	return some
}

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil { // the tests wait for the disk; the flag -parallel overrides this
		panic(err)
	}
	code, err := withProgram(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// builtProgram is the variable that names the program for a test that runs the tests again, elsewhere.
const builtProgram = "FAULTS_PROGRAM"

func withProgram(run func() int) (code int, err error) {
	if program = os.Getenv(builtProgram); program != "" {
		return run(), nil
	}
	dir, err := os.MkdirTemp("", "trellis-faults-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program = filepath.Join(dir, "trellis-faulty")
	if err := programtest.Go("..", "test", "-c", "-vet=off", "-ldflags=-w", "-o", program, "./internal/cli"); err != nil {
		return 1, err
	}
	return run(), nil
}
