package upgrade

import (
	"context"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// Owner is the package manager that installed the program, and so is responsible for its file; "" if none did.
type Owner string

// The package managers that releases have packages for.
const (
	Homebrew Owner = "Homebrew"
	Dpkg     Owner = "dpkg"
	RPM      Owner = "rpm"
	APK      Owner = "apk"
)

// ownerQueries lists commands that exit with 0 for a file of a package, by package manager.
var ownerQueries = []struct {
	owner Owner
	argv  []string
}{
	{Dpkg, []string{"dpkg-query", "--search"}},
	{RPM, []string{"rpm", "--query", "--file"}},
	{APK, []string{"apk", "info", "--who-owns"}},
}

// Owner returns the package manager that installed the program.
func (p *Program) Owner(ctx context.Context) Owner {
	if strings.Contains(p.Path, "/Cellar/") || strings.Contains(p.Path, "/Caskroom/") {
		return Homebrew
	}
	for _, a := range ownerQueries {
		exit, err := proc.Run(ctx, proc.Command{Argv: append(a.argv[:len(a.argv):len(a.argv)], p.Path), Env: p.Env, Stdout: io.Discard, Stderr: io.Discard, Wall: 20 * time.Second, Grace: time.Second})
		if err == nil && exit.Code == 0 {
			return a.owner
		}
	}
	return ""
}

// Command returns the command that installs a release with the package manager.
func (o Owner) Command(r *Release) string {
	name := "trellis_" + strings.TrimPrefix(r.Version, "v") + "_" + runtime.GOOS + "_" + runtime.GOARCH
	switch o {
	case Homebrew:
		return "brew upgrade trellis"
	case Dpkg:
		return "curl -fLO " + r.Address(name+".deb") + " && sudo dpkg -i " + name + ".deb"
	case RPM:
		return "sudo rpm -U " + r.Address(name+".rpm")
	default:
		return "curl -fLO " + r.Address(name+".apk") + " && sudo apk add --allow-untrusted " + name + ".apk"
	}
}
