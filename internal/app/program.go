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

// Program is this program, which a face runs in a process of its own for orders that lead to hooks and to other programs.
type Program struct {
	Self string   // its file
	Dir  string   // where it is run
	Env  []string // KEY=VALUE
}

// Said is what this program said when it was run.
type Said struct {
	Says, Next string
	GoesOn     bool // it had not ended when it was no longer waited for
}

// Planning is what is wanted of a new plan. The flags of trellis plan are their names; "" is none.
type Planning struct{ Requirement, Name, Type, Priority, Package string }

// maxRequirement is how long a requirement may be, in bytes: it is handed on in one argument.
const maxRequirement = 96 << 10

// Plan begins a planning, which goes on by itself, and tells what it was called.
func (p Program) Plan(ctx context.Context, o Planning) (Said, error) {
	args, err := o.args()
	if err != nil {
		return Said{}, err
	}
	return p.Run(ctx, args...)
}

// BeginPlan is Plan for who waits no longer than the patience.
func (p Program) BeginPlan(patience time.Duration, o Planning) (Said, error) {
	args, err := o.args()
	if err != nil {
		return Said{}, err
	}
	return p.Begin(patience, args...)
}

func (o Planning) args() ([]string, error) {
	said := strings.TrimSpace(strings.ReplaceAll(o.Requirement, "\r\n", "\n"))
	switch err := CheckText("the requirement", said); {
	case err != nil:
		return nil, err
	case said == "":
		return nil, Usagef("say what is wanted")
	case len(said) > maxRequirement:
		return nil, WithHints(Usagef("the requirement is %d bytes long, at most %d are taken here", len(said), maxRequirement), "trellis plan --requirement-file FILE")
	}
	args := []string{"plan", "--detach", "--requirement=" + said}
	for _, flag := range [][2]string{{"name", o.Name}, {"type", o.Type}, {"priority", o.Priority}, {"package", o.Package}} {
		if value := strings.TrimSpace(flag[1]); value != "" {
			args = append(args, "--"+flag[0]+"="+value)
		}
	}
	return args, nil
}

// beginning is how long a planning that goes on by itself may take to say that it can't.
const beginning = 700 * time.Millisecond

// Revise has a task planned again with what a person says about its plan, which goes on by itself.
func (p Program) Revise(id, feedback string) (Said, error) {
	feedback = strings.TrimSpace(strings.ReplaceAll(feedback, "\r\n", "\n"))
	if feedback == "" {
		return Said{}, Usagef("say what should be different")
	}
	if err := CheckFeedback("your feedback", feedback); err != nil {
		return Said{}, err
	}
	done, err := p.Begin(beginning, "plan", "--retry="+id, "--feedback="+feedback)
	if done.GoesOn {
		done.Says = id + " is planned again"
	}
	return done, err
}

// Run runs the program to its end, and tells what it said.
func (p Program) Run(ctx context.Context, args ...string) (Said, error) {
	cmd := exec.CommandContext(ctx, p.Self, args...)
	cmd.Dir, cmd.Env = p.Dir, p.Env
	out, err := cmd.CombinedOutput()
	return SaidBy(string(out), err)
}

// maxSaid is how much is read of what the program says, in bytes.
const maxSaid = 1 << 20

// Begin runs the program in a session of its own, which outlives the caller. What ends within the patience is told.
func (p Program) Begin(patience time.Duration, args ...string) (Said, error) {
	out, err := os.CreateTemp("", "trellis-said-") // a pipe would end with the caller
	if err != nil {
		return Said{}, fmt.Errorf("running %s: %w", args[0], err)
	}
	defer out.Close()
	cmd := exec.Command(p.Self, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.Dir, p.Env, &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = out, out
	if err := errors.Join(cmd.Start(), os.Remove(out.Name())); err != nil {
		return Said{}, fmt.Errorf("running %s: %w", args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		text, readErr := io.ReadAll(io.NewSectionReader(out, 0, maxSaid))
		return SaidBy(string(text), errors.Join(err, readErr))
	case <-time.After(patience):
		return Said{GoesOn: true}, nil
	}
}

// SaidBy takes apart what this program said, and how it ended. Of several commands that are to be typed one after the other, the first
// comes next.
func SaidBy(out string, err error) (s Said, _ error) {
	var said []string
	among := false // commands that come next
	for one := range strings.Lines(out) {
		one = strings.TrimPrefix(strings.TrimSpace(one), "trellis: ")
		if next, is := strings.CutPrefix(one, "next: "); is {
			if !among {
				s.Next, among = next, true
			}
			continue
		}
		head, next, is := strings.Cut(one, "; next: ")
		if among = is; is {
			one, s.Next = head, next
		}
		if one != "" && !slices.Contains(said, one) {
			said = append(said, one)
		}
	}
	s.Says = strings.Join(said, "; ")
	if !errors.As(err, new(*exec.ExitError)) || s.Says == "" {
		return s, err
	}
	err = AsKind(ErrUnmet, errors.New(s.Says))
	if s.Next != "" {
		err = WithHints(err, s.Next)
	}
	return s, err
}
