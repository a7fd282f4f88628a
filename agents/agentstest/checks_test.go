package agentstest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func checkEmpty(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	if got := run(t, st.Agent, st.request(t, trellis.Evaluate, "judge it")).code(t); got != trellis.EmptyOutput {
		t.Errorf("a role whose answer is read: got %s, want %s", got, trellis.EmptyOutput)
	}
	if s.Reads {
		return
	}
	if o := run(t, st.Agent, st.request(t, trellis.Implement, "do it")); o.err != nil || o.Text != "" {
		t.Errorf("a role that works: got %+v, %v, want an empty text", o.Result, o.err)
	}
}

// checkRefused: a role that may only read tries to write. It continues without, and the tree stays as it was.
func checkRefused(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	before := tree(t, st.Dir)
	for _, role := range []trellis.Role{trellis.Research, trellis.Judge} {
		o := run(t, st.Agent, st.request(t, role, "write anyway"))
		if o.err != nil || o.Text != Text {
			t.Errorf("%s: got %+v, %v", role, o.Result, o.err)
		}
		if after := tree(t, st.Dir); !slices.Equal(before, after) {
			t.Errorf("%s changed the tree: got %q, want %q", role, after, before)
		}
	}
}

// checkEdits: an agent that only reads refuses to edit, before it sends any request.
func checkEdits(t *testing.T, s Subject, b Behaviour) {
	if !s.Reads {
		t.Skip("it edits")
	}
	st := s.Stage(t, b)
	for _, p := range []trellis.Permission{trellis.PermitEdit, trellis.PermitFull, ""} {
		r := st.request(t, trellis.Implement, "do it")
		r.Permission = p
		var f *flow.Failure
		if res, err := st.Agent.Run(t.Context(), r, nil); !errors.As(err, &f) || f.Code != string(trellis.AgentMissing) || f.Retryable {
			t.Errorf("permission %q: got %+v, %v, want %s", p, res, err, trellis.AgentMissing)
		}
	}
	if got, asked := st.Heard(); asked {
		t.Errorf("the model was asked %q", got)
	}
}

// checkPermissions: the arguments of the program say whether it may change files.
func checkPermissions(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	if st.Edits == nil {
		t.Skip("its arguments have a test of their own")
	}
	for p, want := range map[trellis.Permission]bool{trellis.PermitNone: false, trellis.PermitRead: false, trellis.PermitEdit: true, trellis.PermitFull: true} {
		r := st.request(t, trellis.Implement, "do it")
		r.Permission = p
		if o := run(t, st.Agent, r); o.err != nil || st.Edits() != want {
			t.Errorf("permission %s: told that it may edit: %v, %v", p, !want, o.err)
		}
	}
}

func failsWith(codes ...trellis.Code) func(*testing.T, Subject, Behaviour) {
	return func(t *testing.T, s Subject, b Behaviour) {
		st := s.Stage(t, b)
		o := run(t, st.Agent, st.request(t, s.role(), "do it"))
		if got := o.code(t); !slices.Contains(codes, got) {
			t.Errorf("got %v, want %s", o.err, codes)
		}
		if o.has(agents.EventResult) {
			t.Error("a failed run has a result event")
		}
	}
}

// failsOnce is failsWith for a failure that is not retried, with the provider's own words in one line.
func failsOnce(code trellis.Code) func(*testing.T, Subject, Behaviour) {
	return func(t *testing.T, s Subject, b Behaviour) {
		st := s.Stage(t, b)
		o := run(t, st.Agent, st.request(t, s.role(), "do it"))
		var f *flow.Failure
		if got := o.code(t); got != code || !errors.As(o.err, &f) || f.Retryable || !f.ResumeAt.IsZero() || strings.Count(f.Detail, "\n") > 0 || f.Detail == "" {
			t.Errorf("got %+v, want %s, once, in a sentence", o.err, code)
		}
	}
}

func checkSilent(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	r := st.request(t, s.role(), "do it")
	r.Limits.Idle = 1500 * time.Millisecond
	began := time.Now()
	o := run(t, st.Agent, r)
	if got := o.code(t); got != trellis.TimeoutIdle {
		t.Errorf("got %v, want %s", o.err, trellis.TimeoutIdle)
	}
	var f *flow.Failure
	if errors.As(o.err, &f); !f.Retryable {
		t.Error("silence is tried again")
	}
	if took := time.Since(began); took > Hang {
		t.Errorf("it took %s", took)
	}
}

func checkWall(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	r := st.request(t, s.role(), "do it")
	r.Limits.Wall = time.Second
	if o := run(t, st.Agent, r); o.code(t) != trellis.TimeoutWall {
		t.Errorf("got %v, want %s", o.err, trellis.TimeoutWall)
	}
}

func checkHangs(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	r := st.request(t, s.role(), "do it")
	began := time.Now()
	o := run(t, st.Agent, r)
	if o.err != nil || o.Text != Text {
		t.Errorf("got %+v, %v, want the result in spite of the hang", o.Result, o.err)
	}
	if took := time.Since(began); took > Hang {
		t.Errorf("it took %s", took)
	}
}

var errEnough = errors.New("that is enough")

// checkCancel cancels a run while its tools are at work; runIn checks that none of them is left.
func checkCancel(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := st.request(t, s.role(), "do it")
	go func() {
		defer cancel(errEnough)
		for end := time.Now().Add(Hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if AtWork(t, r.Marker) >= 2 {
				return
			}
		}
		t.Error("the tools of the run did not come up")
	}()
	o := runIn(ctx, t, st.Agent, r)
	if !errors.Is(o.err, errEnough) {
		t.Errorf("got %v, want the cause of the cancellation", o.err)
	}
	if _, err := st.Agent.Run(ctx, r, nil); !errors.Is(err, errEnough) {
		t.Errorf("a run that is cancelled before it begins: got %v", err)
	}
}

func checkExits(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	o := run(t, st.Agent, st.request(t, s.role(), "do it"))
	if got := o.code(t); got != trellis.AgentExit || !strings.Contains(o.err.Error(), "exit 3") || !strings.Contains(o.err.Error(), "no luck") {
		t.Errorf("got %v, want %s with the exit code and what it said", o.err, trellis.AgentExit)
	}
	if strings.Contains(o.err.Error(), Secret) {
		t.Errorf("the message holds a secret: %v", o.err)
	}
}

func checkRateLimited(t *testing.T, s Subject, b Behaviour) {
	began := time.Now() // a busy machine uses up minutes of the hour
	st := s.Stage(t, b)
	var o outcome
	for idle := 30 * time.Second; len(o.events) == 0 && idle < Hang; idle *= 2 { // on a busy machine the program may not have begun by then
		r := st.request(t, s.role(), "do it")
		r.Limits.Idle = idle // some programs wait silently for the end of the rate limit
		if o = run(t, st.Agent, r); !errors.Is(o.err, &flow.Failure{Code: string(trellis.TimeoutIdle)}) {
			break
		}
	}
	var f *flow.Failure
	if got := o.code(t); got != trellis.RateLimited || !errors.As(o.err, &f) {
		t.Fatalf("got %v, want %s", o.err, trellis.RateLimited)
	}
	if f.ResumeAt.Before(began.Add(55*time.Minute)) || time.Until(f.ResumeAt) > 65*time.Minute {
		t.Errorf("got resume in %s, want in an hour", time.Until(f.ResumeAt))
	}
	if f.Retryable {
		t.Error("a rate limit is waited for, not tried again")
	}
}

func checkBudget(t *testing.T, s Subject, b Behaviour) {
	st := s.Stage(t, b)
	r := st.request(t, s.role(), "do it")
	r.Limits.Tokens = 4000
	o := run(t, st.Agent, r)
	if got := o.code(t); got != trellis.BudgetTokens || o.Usage.Tokens() < 5000 || o.Usage.Tokens() > 25_000 {
		t.Errorf("got %v with usage %+v, want %s", o.err, o.Result, trellis.BudgetTokens)
	}
}
