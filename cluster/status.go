package cluster

import (
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/pulse"
)

// overview lists the machines that wait for tasks, and the tasks with their machines.
type overview struct {
	Queues []queueStatus `json:"queues"`
	Tasks  []handedTask  `json:"tasks"`
}

// queueStatus is a queue with the machines that wait for its tasks.
type queueStatus struct {
	Name     string    `json:"name"`
	Machines []machine `json:"machines"`
}

// showStatus prints the machines and the tasks that are handed out.
func showStatus(a *command.Console, c *cli.Context) error {
	j, err := joinCluster(a, c)
	if err != nil {
		return err
	}
	defer j.server.Close()
	if _, err := j.team.Pull(c.Context); err != nil {
		a.Say("%v; what is shown of tasks that wait may be old", err)
	}
	all, err := j.overview(c)
	if err != nil {
		return err
	}
	return a.Print(c.Bool("json"), all, func() error { return all.print(a) })
}

func (j *sharedCheckout) overview(c *cli.Context) (all overview, err error) {
	if all.Tasks, err = j.server.listTasks(c.Context); err != nil {
		return all, err
	}
	reader := j.project.Reader()
	reader.Watcher = pulse.State{Alive: true} // a task that is handed out has a watcher, whether or not one runs here
	for i, h := range all.Tasks {
		if t, err := reader.Task(filepath.Join(j.project.Store.Tasks(), h.Task)); err == nil { // a task that does not exist here has no known state
			all.Tasks[i].Status, all.Tasks[i].WaitsFor = string(t.Status), t.WaitingFor
		}
	}
	for _, agent := range append([]string{""}, agentNames(j.site)...) {
		q := queueStatus{Name: j.server.queue(agent)}
		if q.Machines, err = j.server.machines(c.Context, q.Name); err != nil {
			return all, err
		}
		if agent == "" || len(q.Machines) > 0 {
			all.Queues = append(all.Queues, q)
		}
	}
	return all, nil
}

func (all overview) print(a *command.Console) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "QUEUE\tMACHINE\tLAST HEARD OF") // a tabwriter reports errors only in Flush
	for _, q := range all.Queues {
		if len(q.Machines) == 0 {
			fmt.Fprintf(w, "%s\tnobody waits for its tasks\t\n", q.Name)
		}
		for _, m := range q.Machines {
			fmt.Fprintf(w, "%s\t%s\t%s\n", q.Name, m.Name, m.Last.Local().Format("15:04:05"))
		}
	}
	fmt.Fprintln(w, "\t\t\nTASK\tSTATE\t")
	for _, h := range all.Tasks {
		fmt.Fprintf(w, "%s\t%s\t\n", h.Task, h.description())
	}
	return w.Flush()
}
