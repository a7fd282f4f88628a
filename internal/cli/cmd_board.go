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
		Usage: "serve a page on which tasks are read, reviewed and steered from a browser",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "port", Value: boardPort, Usage: "`PORT` to listen at; 0 is any that is free"},
			&cli.BoolFlag{Name: "open", Usage: "open it in the browser"},
			&cli.BoolFlag{Name: "read-only", Usage: "show all, and take no orders"},
			&cli.StringFlag{Name: "bind", Value: board.Loopback, Usage: "`ADDRESS` to listen at"},
			&cli.BoolFlag{Name: "allow-remote", Usage: "let others in: needs --cert and --cert-key, or --proxy"},
			&cli.StringFlag{Name: "cert", Usage: "`FILE` with the certificate to speak TLS with"},
			&cli.StringFlag{Name: "cert-key", Usage: "`FILE` with the key of the certificate"},
			&cli.StringFlag{Name: "proxy", Usage: "`URL` by which browsers call it through a proxy that speaks TLS"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Prints the address of the page, which ends with the key that lets in: who has it can do what you can. The board
runs nothing itself and can be open beside a watcher; Ctrl-C ends it, and tasks go on. It listens on this machine
alone. The key is the same the next time, so that open pages connect again; docs/reference/board.md says where it is.`,
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
		a.Say("open it in a browser; Ctrl-C ends the board, and tasks go on")
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
