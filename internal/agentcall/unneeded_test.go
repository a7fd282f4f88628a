package agentcall

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// endless is an agent that reports its usage, and works until it is ended.
type endless struct {
	asked int
	begun chan struct{}
}

func (a *endless) Run(ctx context.Context, r agents.Request, _ func(agents.Event)) (*agents.Result, error) {
	a.asked++
	used := trellis.Usage{InputTokens: 400}
	if f := r.Spent(used); f != nil {
		return nil, f
	}
	a.begun <- struct{}{}
	<-ctx.Done()
	return &agents.Result{Usage: used, ToolCalls: -1}, context.Cause(ctx)
}

var needlessCall = UnneededCalls{Calls: []string{"implement#1"}, Why: "nobody wants it"}

func (a *Caller) off1(t *testing.T) int {
	t.Helper()
	n, err := a.callOff(t.Context(), flow.Call{Run: "02-01-x/1", ID: "call-off#1", Attempt: 1}, needlessCall)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func wantOff(t *testing.T, when string, r Reply, err error, tokens int64) {
	t.Helper()
	if err != nil || r.Failure == nil || r.Failure.Code != string(trellis.CalledOff) || r.Failure.Detail != "nobody wants it" || r.Usage.Tokens() != tokens {
		t.Errorf("%s: got %+v, %v", when, r, err)
	}
}

// A call that is called off while it is under way ends, and its usage counts; one that is called off before is not made. Another
// call at the same time goes on.
func TestCallOff(t *testing.T) {
	agent := &endless{begun: make(chan struct{}, 1)}
	a := spending(t.TempDir(), agent)
	ended := 0
	go func() {
		<-agent.begun
		ended = a.off1(t)
		agent.begun <- struct{}{}
	}()
	reply, err := a.call(t.Context(), 1, Limits{})
	<-agent.begun
	wantOff(t, "under way", reply, err, 400)
	if ended != 1 || len(a.calledOff.running) != 0 {
		t.Errorf("%d calls were ended, %d are open", ended, len(a.calledOff.running))
	}
	b := spending(t.TempDir(), agent)
	if n := b.off1(t); n != 0 {
		t.Errorf("%d calls were ended that nobody had made", n)
	}
	reply, err = b.call(t.Context(), 1, Limits{})
	wantOff(t, "before", reply, err, 0)
	other := spending(t.TempDir(), &spender{totals: []int64{50}})
	other.off1(t)
	if reply, err := other.perform(t.Context(), flow.Call{Run: "02-01-x/1", ID: "check#1", Attempt: 1}, Request{Role: trellis.Check}); err != nil || reply.Failure != nil {
		t.Errorf("another: %+v, %v", reply, err)
	}
	if agent.asked != 1 {
		t.Errorf("the agent was asked %d times", agent.asked)
	}
}

// The process may be killed once a call is called off: the next process does not make the call again, and knows its usage. A record
// that another run of the same number left is ignored.
func TestCallOffSurvivesACrash(t *testing.T) {
	dir := t.TempDir()
	agent := &endless{begun: make(chan struct{}, 1)}
	a := spending(dir, agent)
	ctx, cut := context.WithCancel(t.Context())
	go func() {
		<-agent.begun
		cut()
	}()
	if _, err := a.call(ctx, 1, Limits{}); err == nil {
		t.Fatal("it was not cut off")
	}
	a.off1(t)
	a = spending(dir, agent)
	reply, err := a.call(t.Context(), 2, Limits{})
	wantOff(t, "after a crash", reply, err, 400)
	if agent.asked != 1 {
		t.Errorf("the agent was asked %d times", agent.asked)
	}
	b := spending(dir, &spender{totals: []int64{50}})
	if reply, err := b.call(t.Context(), 1, Limits{}); err != nil || reply.Failure != nil || reply.Usage.Tokens() != 50 {
		t.Errorf("of another run: %+v, %v", reply, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run", "1", "implement#1", calledOffFile), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "run", "1", "implement#1", "1", ResultFile)); err != nil {
		t.Fatal(err)
	}
	if reply, err := b.call(t.Context(), 2, Limits{}); err == nil {
		t.Errorf("a file that can't be read: %+v", reply)
	}
}
