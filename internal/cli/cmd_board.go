package cli

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/board"
	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// boardPort is the default of --port.
const boardPort = 7433

func boardCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "board",
		Usage: "serve a web page to view, review and control tasks",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "port", Value: boardPort, Usage: "`PORT` to listen on; 0 picks a free one"},
			&cli.BoolFlag{Name: "open", Usage: "open it in the browser"},
			&cli.BoolFlag{Name: "read-only", Usage: "show everything, but accept no commands"},
			&cli.StringFlag{Name: "bind", Value: board.Loopback, Usage: "`ADDRESS` to listen on"},
			&cli.BoolFlag{Name: "allow-remote", Usage: "allow access from other machines; needs --cert and --cert-key, or --proxy"},
			&cli.StringFlag{Name: "cert", Usage: "`FILE` with the TLS certificate"},
			&cli.StringFlag{Name: "cert-key", Usage: "`FILE` with the certificate's key"},
			&cli.StringFlag{Name: "proxy", Usage: "`URL` at which browsers reach it through a TLS proxy"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Prints the URL of the page, which ends with the access key: anyone who has it can do what you can. The board
runs nothing itself and can be open while a watcher runs; Ctrl-C stops it, and tasks continue. By default it listens on this
machine only. The key stays the same, so that open pages reconnect; docs/reference/board.md says where it is kept.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitInterrupted}, "trellis board --open", "trellis board --port 8080 --read-only"),
		Action: func(c *cli.Context) error { return runBoard(a, c) },
	}
}

func runBoard(a *command.Console, c *cli.Context) error {
	if err := a.RequirePerson("serve the board"); err != nil {
		return err
	}
	address := board.Address{Bind: c.String("bind"), Port: c.Int("port"), Remote: c.Bool("allow-remote"), Proxy: c.String("proxy")}
	if c.IsSet("cert") || c.IsSet("cert-key") {
		address.Cert, address.Key = a.Path(c.String("cert")), a.Path(c.String("cert-key"))
	}
	if err := address.Check(); err != nil {
		return err
	}
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	key, err := a.Caller().BoardKey(p.Root)
	if err != nil {
		return err
	}
	return board.Serve(c.Context, p, board.Options{Address: address, ReadOnly: c.Bool("read-only"), Version: command.Version(), Self: self, Dir: a.Dir, Key: key, Now: a.Now, Ready: func(url string) {
		sayBoard(a, c, p.Root, url)
	}})
}

// sayBoard prints the address of the board, and opens it in a browser with --open.
func sayBoard(a *command.Console, c *cli.Context, root, url string) {
	if err := a.Print(c.Bool("json"), map[string]string{"url": url}, func() error {
		_, err := fmt.Fprintln(a.Stdout, url)
		return err
	}); err != nil {
		a.Say("%v", err)
	}
	if !c.Bool("json") {
		a.Say("open it in a browser; Ctrl-C ends the board, and tasks continue")
	}
	if c.Bool("open") {
		if err := openBrowser(a, root, url); err != nil {
			a.Say("%v: open the address yourself", err)
		}
	}
}

// openBrowser opens an address of the board in the person's browser.
func openBrowser(a *command.Console, root, url string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	if err := a.Caller().LookPath(program); err != nil {
		return err
	}
	door, err := a.Caller().BoardDoor(root, url)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, door)
	cmd.Env, cmd.Dir = a.Env, a.Dir
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("opening the browser: %w", err)
	}
	go func() { _ = cmd.Wait() }() // the exit status of the browser does not matter
	return nil
}
