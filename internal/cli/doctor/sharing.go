package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// maxClockSkew is the difference of clocks from which doctor warns. Only times that people read depend on the clocks.
const maxClockSkew = 30 * time.Second

// checkSharing checks whether tasks can be shared with other machines, if the settings ask for it.
func checkSharing(ctx context.Context, d *diagnosis, p *app.Project) {
	s, err := p.ReadingSite(ctx)
	if err != nil {
		return // the error of the settings was reported before
	}
	d.findings = append(d.findings, serverFindings(ctx, s.Config.Cluster)...)
	team, err := app.SharingOf(p).Team(s)
	if errors.Is(err, app.ErrNoTeam) {
		if s.Config.Cluster.Repo != "" {
			d.add(stateError, "sharing", "cluster.repo is set, and no remote that the state of tasks goes through", "trellis config set shared.remote origin")
		}
		return
	}
	if err != nil {
		d.add(stateError, "sharing", err.Error(), "")
		return
	}
	l, err := team.Look(ctx)
	if err != nil {
		d.add(stateError, "sharing", text.OneLine(err.Error()), "git push --dry-run "+trellis.ShellWord(team.Remote.Name)+" HEAD:refs/trellis/run/may-push")
		return
	}
	said := fmt.Sprintf("%s has %s", team.Remote.Name, text.Count(l.Tasks, "task"))
	if len(l.Held) > 0 {
		said += "; " + strings.Join(l.Held, "; ")
	}
	d.add(stateOK, "sharing", said, "")
	if l.Ahead > maxClockSkew {
		d.add(stateWarning, "sharing", fmt.Sprintf("the clock of another machine is at least %v ahead of this one", l.Ahead.Round(time.Second)), "timedatectl status")
	}
	if s.Config.Objectives.Watch {
		d.add(stateWarning, "sharing", "objectives.watch has every machine with these settings plan the same steps of objectives: let one do it, whose watcher is started with --objectives", "trellis config set objectives.watch false")
	}
	if len(l.Builds) > 0 {
		d.add(stateWarning, "sharing", "other machines use another Trellis: "+strings.Join(l.Builds, ", "), "install the same version on all")
	}
}

// dialTimeout is how long connecting to a server may take.
const dialTimeout = 3 * time.Second

// serverFindings checks whether something answers at cluster.address, where trellis-cluster says who runs
// what, if cluster.repo is set. It does not check who may use the server: trellis-cluster does.
func serverFindings(ctx context.Context, c config.Cluster) []finding {
	if c.Repo == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return []finding{{Check: "server", State: stateError, Detail: text.OneLine(fmt.Sprintf("no Temporal server answers at %s: %v", c.Address, err)), Hint: "trellis config set cluster.address HOST:PORT"}}
	}
	_ = conn.Close() // nothing was sent
	return []finding{{Check: "server", State: stateOK, Detail: fmt.Sprintf("something answers at %s: trellis-cluster status asks it who has what", c.Address)}}
}
