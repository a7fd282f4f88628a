package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// newPlan is the page on which a person says what is wanted.
func (s *Server) newPlan(context.Context, *http.Request) (string, error) {
	cfg, _ := s.p.Config() // settings that can't be read name no packages
	var packages []string
	for name := range cfg.Packages {
		packages = append(packages, name)
	}
	return render("plan", page{Data: map[string]any{"Types": trellis.DevTypes, "Packages": packages}, Reads: s.o.ReadOnly})
}

// maxRequirement is how long a requirement may be, in bytes: it is handed on in one argument.
const maxRequirement = 96 << 10

// plan begins a planning, as trellis plan does, which goes on when this server ends.
func (s *Server) plan(ctx context.Context, r *http.Request) (string, error) {
	if err := r.ParseForm(); err != nil {
		return "", app.AsKind(app.ErrUsage, err)
	}
	said := strings.TrimSpace(strings.ReplaceAll(r.PostFormValue("requirement"), "\r\n", "\n"))
	switch err := app.CheckText("the requirement", said); {
	case err != nil:
		return "", err
	case said == "":
		return "", app.Usagef("say what is wanted")
	case len(said) > maxRequirement:
		return "", app.WithHints(app.Usagef("the requirement is %d bytes long, at most %d are taken here", len(said), maxRequirement), "trellis plan --requirement-file FILE")
	}
	args := []string{"plan", "--detach", "--requirement=" + said}
	for _, flag := range []string{"name", "type", "priority", "package"} {
		if value := strings.TrimSpace(r.PostFormValue(flag)); value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	s.order.Lock()
	defer s.order.Unlock()
	a, err := s.run(context.WithoutCancel(ctx), args...)
	if err != nil {
		return "", err
	}
	return render("said", a)
}

// beginning is how long a program that goes on by itself may take to say that it can't.
const beginning = 700 * time.Millisecond

// background runs this program in a session of its own, which outlives this server. What ends at once with an error is told.
func (s *Server) background(says string, args ...string) (answer, error) {
	out, err := os.CreateTemp("", "trellis-board-") // a pipe would end with this server
	if err != nil {
		return answer{}, fmt.Errorf("running %s: %w", args[0], err)
	}
	defer out.Close()
	cmd := exec.Command(s.o.Self, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = s.o.Dir, s.p.Env.Vars, &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = out, out
	if err := errors.Join(cmd.Start(), os.Remove(out.Name())); err != nil {
		return answer{}, fmt.Errorf("running %s: %w", args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		text, readErr := io.ReadAll(io.NewSectionReader(out, 0, maxForm))
		return toldBy(string(text), errors.Join(err, readErr))
	case <-time.After(beginning):
		return answer{Says: says}, nil
	}
}
