package upgrade

import (
	"context"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

// Owner is a package manager that installed the program, whose file is then its own; "" is none.
type Owner string

// The package managers that releases have packages for.
const (
	Homebrew Owner = "Homebrew"
	Dpkg     Owner = "dpkg"
	RPM      Owner = "rpm"
	APK      Owner = "apk"
)

// asks is what the package managers answer with 0 for a file that is theirs.
var asks = []struct {
	owner Owner
	argv  []string
}{
	{Dpkg, []string{"dpkg-query", "--search"}},
	{RPM, []string{"rpm", "--query", "--file"}},
	{APK, []string{"apk", "info", "--who-owns"}},
}

// Owner finds who installed the program.
func (p *Program) Owner(ctx context.Context) Owner {
	if strings.Contains(p.Path, "/Cellar/") || strings.Contains(p.Path, "/Caskroom/") {
		return Homebrew
	}
	for _, a := range asks {
		exit, err := proc.Run(ctx, proc.Command{Argv: append(a.argv[:len(a.argv):len(a.argv)], p.Path), Env: p.Env, Stdout: io.Discard, Stderr: io.Discard, Wall: 20 * time.Second, Grace: time.Second})
		if err == nil && exit.Code == 0 {
			return a.owner
		}
	}
	return ""
}

// Command is what to type to have the package manager bring a release.
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
