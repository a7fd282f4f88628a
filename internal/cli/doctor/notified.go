package doctor

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// notifierFindings checks whether the notifiers can work: whether their programs exist, their variables are
// set, and the last message arrived. It sends nothing.
func notifierFindings(p *app.Project, c *config.Config) (list []finding) {
	failing := map[string]app.Failing{}
	for _, f := range p.News.Failing() {
		failing[f.Name] = f
	}
	for _, n := range c.Notify {
		name := app.NotifierName(n)
		f := finding{Check: "notify", State: stateOK, Detail: strings.Join(n.On, ", ") + ": " + name}
		if len(n.Command) > 0 {
			f.Detail = strings.Join(n.On, ", ") + ": " + n.Command[0]
		}
		if why := notifierProblem(p, n); why != "" {
			f.State, f.Detail, f.Hint = stateError, why, "fix notify in .trellis/config.yaml"
		} else if last, ok := failing[name]; ok {
			f.State, f.Hint = stateWarning, "trellis notify test "+trellis.ShellWord(name)
			f.Detail = fmt.Sprintf("%s could not be notified since %s: %s", name, last.Since.Local().Format(time.DateTime), last.Error)
		} else if n.Webhook != "" {
			continue
		}
		list = append(list, f)
	}
	return list
}

// notifierProblem returns why a notifier can't work, or "".
func notifierProblem(p *app.Project, n config.Notify) string {
	program := ""
	switch {
	case len(n.Command) > 0:
		program = n.Command[0]
	case n.Kind == config.ByDesktop && runtime.GOOS == "darwin":
		program = "osascript"
	case n.Kind == config.ByDesktop:
		program = "notify-send"
	}
	if program != "" {
		if err := p.Env.LookPath(program); err != nil {
			return fmt.Sprintf("`%s` can't run: %v", program, err)
		}
	}
	for _, name := range n.Secrets() {
		if p.Env.Get(name) == "" {
			return fmt.Sprintf("%s: $%s is not set", app.NotifierName(n), name)
		}
	}
	return ""
}
