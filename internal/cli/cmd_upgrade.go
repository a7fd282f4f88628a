package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/mod/semver"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/upgrade"
)

// releasesVar is the environment variable with the address of a mirror of the releases.
const releasesVar = "TRELLIS_RELEASES"

func upgradeCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "upgrade",
		Usage: "replace this program with the newest release, or restore the previous one",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "check", Usage: "only check for a newer release; exit with 3 if there is one"},
			&cli.BoolFlag{Name: "rollback", Usage: "restore the program from before the last upgrade"},
			&cli.StringFlag{Name: "version", Usage: "`VERSION` to install, such as v0.2.0; may be older (default: the newest)"},
		},
		Description: command.Manual(`Downloads the archive of the release for this system, checks that the key in this program signed its checksum,
starts the new program once, and only then replaces this one, in one step. The old one is kept
beside it, hidden. Whatever goes wrong on the way, a working program stays in place.

If a package manager installed the program, nothing is done, and its command is shown. $TRELLIS_RELEASES is
the URL of a mirror, with the same paths as `+upgrade.Home+`.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitLocked, command.ExitInterrupted}, "trellis upgrade", "trellis upgrade --check", "trellis upgrade --version v0.2.0", "trellis upgrade --rollback"),
		Action: func(c *cli.Context) error {
			if err := a.RequirePerson("upgrade trellis"); err != nil {
				return err
			}
			u, err := newUpgrade(a)
			if err != nil {
				return err
			}
			u.flags = givenFlags(c)
			if c.Bool("rollback") {
				return u.rollback(c.Context)
			}
			return u.run(c.Context, c.String("version"), c.Bool("check"))
		},
	}
}

// givenFlags returns the flags of a call, for a hint that repeats it.
func givenFlags(c *cli.Context) (list []string) {
	for _, name := range []string{"check", "rollback"} {
		if c.Bool(name) {
			list = append(list, "--"+name)
		}
	}
	if version := c.String("version"); version != "" {
		list = append(list, "--version", trellis.ShellWord(version))
	}
	return list
}

// upgrading is one call of trellis upgrade.
type upgrading struct {
	a              *command.Console
	program        *upgrade.Program
	server         *upgrade.Server
	currentVersion string   // the version of this program
	flags          []string // the flags of this call, quoted for a shell
}

func newUpgrade(a *command.Console) (*upgrading, error) {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	u := &upgrading{a: a, currentVersion: command.Version(), program: &upgrade.Program{Path: path, Disk: a.Disk, Env: a.Env},
		server: &upgrade.Server{Base: upgrade.Home, Key: upgrade.Key, Client: &http.Client{Timeout: 10 * time.Minute}}}
	if mirror := a.Getenv(releasesVar); mirror != "" {
		u.server.Base = mirror
	}
	return u, nil
}

func (u *upgrading) run(ctx context.Context, version string, onlyCheck bool) error {
	if u.server.Key == "" {
		return noReleaseError()
	}
	r, err := u.find(ctx, version)
	switch {
	case err != nil:
		return u.explain(err)
	case r.Version == u.currentVersion || version == "" && semver.Compare(r.Version, u.currentVersion) <= 0:
		u.a.Say("%s is here; the release is %s", u.currentVersion, r.Version)
		return nil
	case onlyCheck:
		return app.WithHints(app.AsKind(app.ErrUnmet, fmt.Errorf("release %s is there, this is %s", r.Version, u.currentVersion)), "trellis upgrade")
	}
	if owner := u.program.Owner(ctx); owner != "" {
		return app.WithHints(app.Usagef("%s installed %s, and brings %s too", owner, u.program.Path, r.Version), owner.Command(r))
	}
	u.a.Say("downloading %s", r.Version)
	files, err := r.Fetch(ctx)
	if err == nil {
		err = u.program.Replace(ctx, files)
	}
	if err != nil {
		return u.explain(err)
	}
	u.a.Say("%s is %s now, and was %s", u.program.Path, r.Version, u.currentVersion)
	u.a.Say("next: trellis upgrade --rollback brings the old one back")
	return nil
}

func (u *upgrading) find(ctx context.Context, version string) (*upgrade.Release, error) {
	if version == "" {
		return u.server.Newest(ctx)
	}
	version = "v" + strings.TrimPrefix(version, "v")
	if !semver.IsValid(version) {
		return nil, app.Usagef("%s is not a version, as v0.2.0 is", version)
	}
	return u.server.Release(ctx, version)
}

func (u *upgrading) rollback(ctx context.Context) error {
	if owner := u.program.Owner(ctx); owner != "" {
		return app.Usagef("%s installed %s, and knows the versions before", owner, u.program.Path)
	}
	if err := u.program.Rollback(ctx); err != nil {
		return u.explain(err)
	}
	u.a.Say("%s is the one from before the last upgrade again", u.program.Path)
	return nil
}

// explain adds to the error of a failed upgrade its kind and what to do about it.
func (u *upgrading) explain(err error) error {
	switch {
	case errors.Is(err, upgrade.ErrUnsigned), errors.Is(err, upgrade.ErrChecksum):
		return app.WithHints(app.AsKind(app.ErrFailed, fmt.Errorf("nothing was changed: %w", err)), "try again; if it happens again, report it as SECURITY.md says, with the address of the server")
	case errors.Is(err, durable.ErrHeld):
		return app.AsKind(app.ErrLocked, err)
	case errors.Is(err, upgrade.ErrNoPrevious):
		return app.AsKind(app.ErrUsage, err)
	case errors.Is(err, fs.ErrPermission):
		return app.WithHints(err, strings.Join(append([]string{"sudo", trellis.ShellWord(u.program.Path), "upgrade"}, u.flags...), " "))
	}
	return err
}

// noReleaseError returns the error for a program that is not a release.
func noReleaseError() error {
	err := app.Usagef("this program is not a release: it was built without the key of the releases")
	if command.ReadBuild().Commit != "" {
		return app.WithHints(err, "git pull && make build")
	}
	return app.WithHints(err, "go install github.com/trellis-tasks/trellis/cmd/trellis@latest")
}
