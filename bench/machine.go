package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine prints the properties of the machine that affect the results.
func (b *bench) machine(w io.Writer) error {
	git, err := output("git", "version")
	if err != nil {
		return err
	}
	version, err := output(b.trellis, "--version")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "machine  %s, %d cores, %s/%s, %s\n", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, system())
	fmt.Fprintf(w, "load     %s\n", load())
	fmt.Fprintf(w, "git      %s\n", strings.TrimPrefix(git, "git version "))
	fmt.Fprintf(w, "go       %s\n", runtime.Version())
	fmt.Fprintf(w, "trellis  %s\n", strings.TrimPrefix(version, "trellis "))
	if b.before != "" {
		version, err := output(b.before, "--version")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "before   %s\n", strings.TrimPrefix(version, "trellis "))
	}
	fmt.Fprintf(w, "files    %s\n\n", b.dir)
	return nil
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", name, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}

// processor returns the model of the first processor.
func processor() string {
	if model, err := output("sysctl", "-n", "machdep.cpu.brand_string"); err == nil && runtime.GOOS == "darwin" {
		return model
	}
	if model := field("/proc/cpuinfo", "model name", ":"); model != "" {
		return model
	}
	return "unknown processor"
}

// system returns the name of the operating system.
func system() string {
	if name := field("/etc/os-release", "PRETTY_NAME", "="); name != "" {
		kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // omitted if it can't be read
		return strings.Trim(name, `"`) + ", " + strings.TrimSpace(string(kernel))
	}
	kernel, err := output("uname", "-sr")
	if err != nil {
		return "unknown system"
	}
	return kernel
}

// load returns the load averages: above the number of cores, the results are those of a busy machine.
func load() string {
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		return strings.Join(strings.Fields(string(data))[:3], " ")
	}
	if text, err := output("sysctl", "-n", "vm.loadavg"); err == nil {
		return strings.Trim(text, "{ }")
	}
	return "unknown"
}

// field returns the value of the first line of the form key, separator, value in file; "" if there is none.
func field(file, key, separator string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// disk measures how long a small durable write takes, as every record of a run needs one.
func (b *bench) disk() error {
	r := row{name: "fsync of 500 bytes appended", unit: "ms"}
	f, err := os.Create(filepath.Join(b.dir, "sync"))
	if err != nil {
		return err
	}
	defer f.Close()
	for range b.manySamples {
		began := time.Now()
		if _, err := f.Write(make([]byte, 500)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		r.samples = append(r.samples, msSince(began))
	}
	b.rows = append(b.rows, r)
	return nil
}

// msSince returns the time since began in milliseconds.
func msSince(began time.Time) float64 { return float64(time.Since(began)) / float64(time.Millisecond) }
