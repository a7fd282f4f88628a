package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Program runs this program in a separate process, for orders that lead to hooks and to other programs.
type Program struct {
	Self string   // the executable file
	Dir  string   // the working directory
	Env  []string // KEY=VALUE
}

// Output is the output of this program.
type Output struct {
	Says, Next string
	GoesOn     bool // it was still running when the wait ended
}

// Planning is a request for a new plan. The fields are named like the flags of trellis plan; "" means unset.
type Planning struct{ Requirement, Name, Type, Priority, Package string }

// maxRequirement is the maximum size of a requirement, in bytes: it is passed as one argument.
const maxRequirement = 96 << 10

// Plan starts a planning that continues in the background, and returns the output, which names it.
func (p Program) Plan(ctx context.Context, o Planning) (Output, error) {
	args, err := o.args()
	if err != nil {
		return Output{}, err
	}
	return p.Run(ctx, args...)
}

// BeginPlan is like Plan, but waits no longer than patience.
func (p Program) BeginPlan(patience time.Duration, o Planning) (Output, error) {
	args, err := o.args()
	if err != nil {
		return Output{}, err
	}
	return p.Begin(patience, args...)
}

func (o Planning) args() ([]string, error) {
	requirement := strings.TrimSpace(strings.ReplaceAll(o.Requirement, "\r\n", "\n"))
	switch err := CheckText("the requirement", requirement); {
	case err != nil:
		return nil, err
	case requirement == "":
		return nil, Usagef("say what is wanted")
	case len(requirement) > maxRequirement:
		return nil, WithHints(Usagef("the requirement is %d bytes long, at most %d are taken here", len(requirement), maxRequirement), "trellis plan --requirement-file FILE")
	}
	args := []string{"plan", "--detach", "--requirement=" + requirement}
	for _, flag := range [][2]string{{"name", o.Name}, {"type", o.Type}, {"priority", o.Priority}, {"package", o.Package}} {
		if value := strings.TrimSpace(flag[1]); value != "" {
			args = append(args, "--"+flag[0]+"="+value)
		}
	}
	return args, nil
}

// reviseTimeout is how long Revise waits for a background planning to report that it can't start.
const reviseTimeout = 700 * time.Millisecond

// Revise has a task planned again with a person's feedback on its plan. The planning continues in the background.
func (p Program) Revise(id, feedback string) (Output, error) {
	feedback = strings.TrimSpace(strings.ReplaceAll(feedback, "\r\n", "\n"))
	if feedback == "" {
		return Output{}, Usagef("say what should be different")
	}
	if err := CheckFeedback("your feedback", feedback); err != nil {
		return Output{}, err
	}
	done, err := p.Begin(reviseTimeout, "plan", "--retry="+id, "--feedback="+feedback)
	if done.GoesOn {
		done.Says = id + " is planned again"
	}
	return done, err
}

// Run runs the program to its end, and returns what it printed.
func (p Program) Run(ctx context.Context, args ...string) (Output, error) {
	cmd := exec.CommandContext(ctx, p.Self, args...)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	out, err := cmd.CombinedOutput()
	return ParseOutput(string(out), err)
}

// maxOutput is the maximum size of the program's output that is read, in bytes.
const maxOutput = 1 << 20

// Begin runs the program in a new session, which outlives the caller. It returns the output of what ends within patience.
func (p Program) Begin(patience time.Duration, args ...string) (Output, error) {
	out, err := os.CreateTemp("", "trellis-said-") // a pipe would end with the caller
	if err != nil {
		return Output{}, fmt.Errorf("running %s: %w", args[0], err)
	}
	defer out.Close()
	cmd := exec.Command(p.Self, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.Dir, p.Env, &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = out, out
	if err := errors.Join(cmd.Start(), os.Remove(out.Name())); err != nil {
		return Output{}, fmt.Errorf("running %s: %w", args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		text, readErr := io.ReadAll(io.NewSectionReader(out, 0, maxOutput))
		return ParseOutput(string(text), errors.Join(err, readErr))
	case <-time.After(patience):
		return Output{GoesOn: true}, nil
	}
}

// ParseOutput parses the output of this program, given the error that it ended with. Of several commands to type one after the
// other, Next is the first.
func ParseOutput(out string, err error) (s Output, _ error) {
	var lines []string
	inNext := false // inside a list of next commands
	for line := range strings.Lines(out) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "trellis: ")
		if next, found := strings.CutPrefix(line, "next: "); found {
			if !inNext {
				s.Next, inNext = next, true
			}
			continue
		}
		head, next, found := strings.Cut(line, "; next: ")
		if inNext = found; found {
			line, s.Next = head, next
		}
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	s.Says = strings.Join(lines, "; ")
	if !errors.As(err, new(*exec.ExitError)) || s.Says == "" {
		return s, err
	}
	err = AsKind(ErrUnmet, errors.New(s.Says))
	if s.Next != "" {
		err = WithHints(err, s.Next)
	}
	return s, err
}
