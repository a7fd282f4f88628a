package proc

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/patience"
)

// cgroup is the control group of a call: all its processes are in it from their first instant on, and are killed as one. Nil means
// that there is none.
type cgroup struct {
	path   string
	folder *os.File
}

// CgroupFolder returns the folder in which this process creates a control group for each call: its own one, of version 2. It
// returns an error if no groups can be created there or killed; the processes of a call are then found in other ways.
func CgroupFolder() (string, error) { return cgroupFolder() }

var cgroupFolder = sync.OnceValues(func() (string, error) {
	folder := cgroupOf(os.Getpid())
	if folder == "" {
		return "", errors.New("no control groups of version 2 are mounted")
	}
	g, err := makeCgroup(folder, "probe", Self())
	if err != nil {
		return "", err
	}
	defer g.end()
	if _, err := os.Stat(filepath.Join(g.path, "cgroup.kill")); err != nil {
		return "", errors.New("this kernel can't kill a control group (5.14 can)")
	}
	return folder, nil
})

// cgroupName returns the beginning of the names of a run's control groups.
func cgroupName(marker string) string {
	sum := sha256.Sum256([]byte(marker))
	return "trellis-" + hex.EncodeToString(sum[:8]) + "-"
}

// cgroupOwner returns the next part of the names, which says who ends the groups: the reaper, or the process itself if there is
// none.
func cgroupOwner(id ID) string { return fmt.Sprintf("%d.%s-", id.PID, id.Start) }

// newCgroup creates a control group for a call of the run, nil if that is not possible.
func newCgroup(marker string) *cgroup {
	folder, err := cgroupFolder()
	if err != nil {
		return nil
	}
	owner, guarded := Guarded()
	if !guarded {
		owner = Self()
	}
	g, _ := makeCgroup(folder, marker, owner) //nolint:errcheck // without one it goes too
	return g
}

func makeCgroup(folder, marker string, owner ID) (*cgroup, error) {
	path := filepath.Join(folder, cgroupName(marker)+cgroupOwner(owner)+strings.ToLower(rand.Text()))
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("opening a control group: %w", err)
	}
	return &cgroup{path, f}, nil
}

// startIn starts a program in a control group, or without one if the system refuses that, which it says in many ways. It returns
// the group that the program is in.
func startIn(g *cgroup, path string, argv []string, attr *os.ProcAttr) (*os.Process, *cgroup, error) {
	if g != nil {
		sys := *attr.Sys
		sys.UseCgroupFD, sys.CgroupFD = true, int(g.folder.Fd())
		inside := *attr
		inside.Sys = &sys
		if p, err := startProcess(path, argv, &inside); err == nil {
			return p, g, nil
		}
		g.end()
	}
	p, err := startProcess(path, argv, attr)
	return p, nil, err
}

// end kills the processes in the group, removes it, and returns those that stay alive.
func (g *cgroup) end() []int {
	if g == nil {
		return nil
	}
	g.folder.Close()
	return endCgroup(g.path)
}

// endCgroup kills the processes in a group and in those below it, removes the groups, and returns the processes that stay alive. A
// process that was waited for may still be in its group for a moment, in which the kernel can't remove the group.
func endCgroup(path string) []int {
	if populated(path) {
		os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0) //nolint:errcheck // what is not ours stays
	}
	for end := patience.New(afterKill); populated(path) || errors.Is(removeCgroups(path), unix.EBUSY); time.Sleep(time.Millisecond) {
		if end.Over() {
			return cgroupMembers(path)
		}
	}
	return nil
}

// populated reports whether a process lives in a group or below it.
func populated(path string) bool {
	data, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
	return err == nil && bytes.Contains(data, []byte("populated 1"))
}

// cgroupMembers returns the processes in a group and below it.
func cgroupMembers(path string) (pids []int) {
	for _, i := range processes() {
		if isBelow(cgroupOf(i.id.PID), path) {
			pids = append(pids, i.id.PID)
		}
	}
	return pids
}

// removeCgroups removes an empty group, after those below it.
func removeCgroups(path string) error {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			removeCgroups(filepath.Join(path, e.Name())) //nolint:errcheck // then the one above can't be removed either
		}
	}
	return os.Remove(path)
}

// endCgroups ends the groups in a folder whose names match, except those with one of the spared, and returns the survivors.
func endCgroups(folder string, match func(name string) bool, spared []int) (left []int) {
	var st unix.Statfs_t
	if unix.Statfs(folder, &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if e.IsDir() && match(e.Name()) && !slices.ContainsFunc(spared, func(pid int) bool { return isBelow(cgroupOf(pid), path) }) {
			left = append(left, endCgroup(path)...)
		}
	}
	return left
}

// sweepCgroups ends the groups of a run in the given folders, and in this process's own.
func sweepCgroups(marker string, folders ...string) (left []int) {
	spared := append(ancestors(os.Getpid()), os.Getpid())
	folders = append(folders, cgroupOf(os.Getpid()))
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		left = append(left, endCgroups(folder, func(name string) bool { return strings.HasPrefix(name, cgroupName(marker)) }, spared)...)
	}
	return left
}

// endCgroupsOf ends the groups that a reaper has to end.
func endCgroupsOf(reaper ID) {
	endCgroups(cgroupOf(os.Getpid()), func(name string) bool {
		return strings.HasPrefix(name, "trellis-") && strings.Contains(name, "-"+cgroupOwner(reaper))
	}, nil)
}

// cgroupOf returns the folder of the version 2 control group that a process is in, "" if there is none.
func cgroupOf(pid int) string {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return cgroupMount().folder(path)
		}
	}
	return ""
}

// mount is where a file system is mounted, and which folder of it.
type mount struct{ point, root string }

// folder returns where a path of the file system can be seen, "" if it can't.
func (m mount) folder(path string) string {
	if m.point == "" || !isBelow(path, m.root) {
		return ""
	}
	return filepath.Join(m.point, strings.TrimPrefix(path, m.root))
}

var cgroupMount = sync.OnceValue(func() (m mount) {
	data, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(data)) { // 36 35 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			return mount{point: fields[4], root: fields[3]}
		}
	}
	return mount{}
})

func isBelow(path, folder string) bool {
	return path != "" && (path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/"))
}
