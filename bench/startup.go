package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// startup measures the start-up time of a command, compared to a Go program that does nothing.
func (b *bench) startup(s *site) error {
	id, err := s.addTask()
	if err != nil {
		return err
	}
	empty, err := b.build("empty", "package main\n\nfunc main() {}\n")
	if err != nil {
		return err
	}
	validate, nothing := row{name: "trellis validate DIR", unit: "ms", p50: 10}, row{name: "beside it: an empty Go program", unit: "ms"}
	for range b.manySamples {
		if err := validate.addSample(s.command(b.trellis, "validate", id)); err != nil {
			return err
		}
		if err := nothing.addSample(s.command(empty)); err != nil {
			return err
		}
	}
	b.rows = append(b.rows, validate, nothing)
	return os.RemoveAll(filepath.Join(s.tasks(), id))
}

// addSample runs a program, which has to succeed, and adds the time that it took.
func (r *row) addSample(cmd *exec.Cmd) error {
	began := time.Now()
	err := succeed(cmd)
	r.samples = append(r.samples, msSince(began))
	return err
}

// list measures how `trellis list` scales with the number of tasks: with none that could run, and with a quarter of them ready,
// for which it shows what they wait for. It leaves the site with the last number of tasks.
func (b *bench) list(s *site) error {
	for i, n := range b.sizes {
		if err := s.fill(append([]int{0}, b.sizes...)[i], n); err != nil {
			return err
		}
		name := fmt.Sprintf("trellis list, %d tasks", n)
		if err := b.measureList(s, name); err != nil {
			return err
		}
		err := s.changeStatus("planning", "ready")
		if err == nil {
			err = b.measureList(s, name+", a quarter ready")
		}
		if err := errors.Join(err, s.changeStatus("planning", "planning")); err != nil {
			return err
		}
	}
	return nil
}

// measureList adds a row for `trellis list`.
func (b *bench) measureList(s *site, name string) error {
	r := row{name: name, unit: "ms"}
	if s.filled == 1000 {
		r.p50 = 50
	}
	for range b.fewSamples {
		if err := r.addSample(s.command(b.trellis, "list")); err != nil {
			return err
		}
	}
	b.rows = append(b.rows, r)
	return nil
}

// build builds a program from the source of one file.
func (b *bench) build(name, source string) (string, error) {
	file, program := filepath.Join(b.dir, name+".go"), filepath.Join(b.dir, name)
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		return "", err
	}
	return program, succeed(exec.Command("go", "build", "-o", program, file))
}
