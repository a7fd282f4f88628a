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

// cgroup is the control group of a call: all of its processes are in it from their first instant on, and are killed as one.
// Nil is none.
type cgroup struct {
	path   string
	folder *os.File
}

// CgroupFolder is the folder in which this process makes a control group for each call: its own one, of version 2. Where it may
// make none there, or can't end them, that is an error, and what a call leaves is found in other ways.
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

// cgroupName is how the names of the control groups of a run begin.
func cgroupName(marker string) string {
	sum := sha256.Sum256([]byte(marker))
	return "trellis-" + hex.EncodeToString(sum[:8]) + "-"
}

// cgroupOwner goes on with who ends them: the reaper, or the process itself where there is none.
func cgroupOwner(id ID) string { return fmt.Sprintf("%d.%s-", id.PID, id.Start) }

// newCgroup is one for a call of the run, nil where there is none.
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

// startIn starts a program in a control group, and without one where the system refuses that, which it says in many ways. The
// group that it is in is returned.
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

// end kills what is in the group, removes it, and returns what stays alive.
func (g *cgroup) end() []int {
	if g == nil {
		return nil
	}
	g.folder.Close()
	return endCgroup(g.path)
}

// endCgroup kills what is in a group and in those below it, removes them, and returns what stays alive. One that
// was waited for may still be in its group for a moment, while the kernel can't remove it.
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

// populated reports whether something lives in a group or below it.
func populated(path string) bool {
	data, err := os.ReadFile(filepath.Join(path, "cgroup.events"))
	return err == nil && bytes.Contains(data, []byte("populated 1"))
}

// cgroupMembers are the processes in a group and below it.
func cgroupMembers(path string) (pids []int) {
	for _, i := range processes() {
		if isBelow(cgroupOf(i.id.PID), path) {
			pids = append(pids, i.id.PID)
		}
	}
	return pids
}

// removeCgroups removes an empty group, those below it first.
func removeCgroups(path string) error {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			removeCgroups(filepath.Join(path, e.Name())) //nolint:errcheck // then the one above can't be removed either
		}
	}
	return os.Remove(path)
}

// endCgroups ends the groups in a folder whose names match, without those that one of the spared is in, and returns what stays alive.
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

// sweepCgroups ends the groups of a run in the folders that are given, and in this process's own.
func sweepCgroups(marker string, folders ...string) (left []int) {
	spared := append(ancestors(os.Getpid()), os.Getpid())
	folders = append(folders, cgroupOf(os.Getpid()))
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		left = append(left, endCgroups(folder, func(name string) bool { return strings.HasPrefix(name, cgroupName(marker)) }, spared)...)
	}
	return left
}

// endCgroupsOf ends the groups that a reaper is to end.
func endCgroupsOf(reaper ID) {
	endCgroups(cgroupOf(os.Getpid()), func(name string) bool {
		return strings.HasPrefix(name, "trellis-") && strings.Contains(name, "-"+cgroupOwner(reaper))
	}, nil)
}

// cgroupOf is the folder of the control group of version 2 that a process is in, "" when there is none.
func cgroupOf(pid int) string {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return cgroupMount().folder(path)
		}
	}
	return ""
}

// mount is where a file system is to be seen, and what of it.
type mount struct{ point, root string }

// folder is where a path of the file system is to be seen, "" when it is not.
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
