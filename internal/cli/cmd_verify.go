package cli

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func verifyCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "recheck every proof of a task or a run",
		ArgsUsage: "TASKDIR | ID",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "PEM `FILE` with an Ed25519 key: a public one checks the signature of the proofs, a private one signs them"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Recomputes all of proofs.jsonl and compares it with the plan, the branch and the stored output,
offline. Each record that was changed, deleted, added, moved or is now about something else is named with the
reason. A task without plan.json has nothing to prove.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound}, "trellis verify 02-03-paging", "trellis verify 02-03-paging --key team.pub", "trellis verify 260201-090503-k3fq --json"),
		Action: func(c *cli.Context) error {
			p, dir, isFile, err := a.TaskOrRun(c)
			if err != nil {
				return err
			}
			var audit *proof.Report
			if isFile {
				audit, err = runner.VerifyFile(dir)
			} else {
				audit, err = runner.VerifyTask(c.Context, p.Store, p.Repo.Refs(), dir)
			}
			if err != nil {
				return err
			}
			return printVerification(a, p, dir, audit, c.String("key"), c.Bool("json"))
		},
	}
}

// verification is what verify --json prints.
type verification struct {
	OK           bool            `json:"ok"`
	Nothing      bool            `json:"nothing"` // nothing was to be proven
	Overall      string          `json:"overall"`
	Records      int             `json:"records"`
	Proven       []string        `json:"proven"`
	Unchecked    []string        `json:"unchecked"`
	Unproven     []proof.Finding `json:"unproven"`
	NotRechecked int             `json:"not_rechecked"`
	Findings     []proof.Finding `json:"findings"`
	Signature    string          `json:"signature"` // good, made, or why it is neither; "" if no key was given
}

func printVerification(a *command.Console, p *app.Project, dir string, audit *proof.Report, key string, asJSON bool) error {
	v := verification{OK: audit.OK(), Nothing: audit.NothingToProve, Overall: audit.Overall, Records: len(audit.Records), Proven: append([]string{}, audit.Proven...),
		Unchecked: append([]string{}, audit.Unchecked...), Unproven: append([]proof.Finding{}, audit.Unproven...), NotRechecked: audit.NotRechecked,
		Findings: append([]proof.Finding{}, audit.Findings...)}
	for _, list := range [][]proof.Finding{v.Findings, v.Unproven} {
		for i := range list {
			list[i].File = p.Store.Rel(list[i].File)
		}
	}
	if key != "" {
		var err error
		if v.Signature, err = checkSignature(a, p, dir, audit, key); err != nil {
			return err
		}
		v.OK = v.OK && (v.Signature == "good" || v.Signature == "made")
	}
	if err := a.Print(asJSON, v, func() error { return printVerified(a, p.Store.Rel(dir), v) }); err != nil || v.OK {
		return err
	}
	return app.Quiet(app.ErrUnmet)
}

// checkSignature checks the signature of the proofs with a public key, or signs them with a private one.
func checkSignature(a *command.Console, p *app.Project, dir string, audit *proof.Report, file string) (string, error) {
	data, err := readKey(a, file)
	if err != nil {
		return "", err
	}
	if audit.Overall == "" {
		return "there is no hash of all proofs to sign", nil
	}
	if strings.Contains(string(data), "PRIVATE KEY") {
		key, err := proof.ParsePrivateKey(data)
		if err != nil {
			return "", signerError(err)
		}
		return "made", proof.Sign(p.Store.Disk, dir, audit.Overall, key)
	}
	key, err := proof.ParsePublicKey(data)
	if err != nil {
		return "", app.AsKind(app.ErrUsage, err)
	}
	return signatureState(dir, audit.Overall, key)
}

// signatureState returns "good" if the owner of key signed head, and otherwise why the signature does not count.
func signatureState(dir, head string, key ed25519.PublicKey) (string, error) {
	err := proof.VerifySignature(dir, head, key)
	for _, known := range []error{proof.ErrUnsigned, proof.ErrOtherKey, proof.ErrOtherHead, proof.ErrSignature} {
		if errors.Is(err, known) {
			return err.Error(), nil
		}
	}
	return "good", err
}

func printVerified(a *command.Console, name string, v verification) (err error) {
	var problems []trellis.Problem
	for _, f := range v.Findings {
		f.Message = string(f.Fault) + ": " + f.Message
		problems = append(problems, f.Problem)
	}
	a.PrintProblems(problems)
	for _, f := range v.Unproven {
		if f.Step != "" {
			fmt.Fprintln(a.Stdout, trellis.Visible(fmt.Sprintf("unproven: %s: %s", f.Step, f.Message)))
		}
	}
	switch {
	case v.Nothing:
		a.Say("%s: nothing was to be proven", name)
	case len(v.Findings) > 0:
		a.Say("%s: %s", name, text.Count(len(v.Findings), "fault"))
	default:
		a.Say("%s: %d of %s with a check proven, by %s", name, len(v.Proven), text.Count(len(v.Proven)+len(v.Unproven), "step"), text.Count(v.Records, "record"))
	}
	if v.NotRechecked > 0 {
		a.Say("%s of commands not kept here, and not rechecked", text.Count(v.NotRechecked, "output"))
	}
	if v.Signature != "" {
		a.Say("signature: %s", v.Signature)
	}
	if v.Overall != "" {
		_, err = fmt.Fprintln(a.Stdout, v.Overall)
	}
	return err
}
