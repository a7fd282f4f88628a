package agentcall

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// scripted is a flow whose calls return the given replies.
type scripted struct {
	flow.Flow
	replies []Reply
	asked   []Request
	slept   []time.Duration
}

func (s *scripted) Do(_ string, in, out any) error {
	s.asked = append(s.asked, in.(Request))
	raw, err := json.Marshal(s.replies[0])
	if err != nil {
		return err
	}
	s.replies = s.replies[1:]
	return json.Unmarshal(raw, out)
}

func (s *scripted) Sleep(d time.Duration) error { s.slept = append(s.slept, d); return nil }

func (s *scripted) Await(signal string, d time.Duration, _ any) (bool, error) {
	if signal == BudgetRaised {
		s.slept = append(s.slept, d)
	}
	return false, nil
}

func passing(code trellis.Code) Reply {
	return Reply{Failure: &flow.Failure{Code: string(code), Retryable: true}, Session: "s1"}
}

// An outage of the provider uses up no attempt, and the call waits for hours until it is over (edge A6).
func TestAsk(t *testing.T) {
	now := time.Now().UTC()
	good := Reply{Answer: json.RawMessage(`{}`)}
	bad := Reply{Problems: []string{"/x: is missing"}, Text: Ref{Path: "1/answer.md"}, Session: "s1"}
	limited := Reply{Failure: &flow.Failure{Code: string(trellis.RateLimited), At: now, ResumeAt: now.Add(time.Hour)}}
	soon := Reply{Failure: &flow.Failure{Code: string(trellis.RateLimited), At: now, ResumeAt: now.Add(time.Second)}, Session: "s1"}
	day := Reply{Failure: &flow.Failure{Code: string(trellis.BudgetCost), At: now, ResumeAt: now.Add(2 * time.Hour)}, Session: "s1"}
	down := Reply{Failure: &flow.Failure{Code: string(trellis.ProviderDown), At: now}, Session: "s1"}
	cut := down
	cut.Usage.InputTokens = 1
	for name, c := range map[string]struct {
		replies []Reply
		code    trellis.Code
		slept   []time.Duration
		eager   bool
	}{
		"good":                        {replies: []Reply{good}},
		"repaired":                    {replies: []Reply{bad, good}},
		"invalid for good":            {replies: []Reply{bad, bad}, code: trellis.AgentProtocol},
		"passing failures":            {replies: []Reply{passing(trellis.AgentExit), passing(trellis.AgentSignal), good}, slept: []time.Duration{10 * time.Second, 20 * time.Second}},
		"too many of them":            {replies: []Reply{passing(trellis.AgentExit), passing(trellis.AgentExit), passing(trellis.AgentExit)}, code: trellis.AgentExit, slept: []time.Duration{10 * time.Second, 20 * time.Second}},
		"one that stays":              {replies: []Reply{{Failure: &flow.Failure{Code: string(trellis.AgentAuth)}}}, code: trellis.AgentAuth},
		"limited, and then good":      {replies: []Reply{limited, limited, limited, good}, slept: []time.Duration{time.Hour, time.Hour, time.Hour}},
		"limited as long as it says":  {replies: []Reply{soon, good}, slept: []time.Duration{time.Second}},
		"limited for longer":          {replies: append(slices.Repeat([]Reply{soon}, 8), good), slept: []time.Duration{time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}},
		"limits not in a row":         {replies: []Reply{soon, soon, bad, soon, good}, slept: []time.Duration{time.Second, 10 * time.Second, time.Second}},
		"limited, of an earlier code": {replies: []Reply{soon, soon, soon, good}, slept: []time.Duration{time.Second, time.Second, time.Second}, eager: true},
		"a budget of the task":        {replies: []Reply{{Failure: &flow.Failure{Code: string(trellis.BudgetTokens)}}}, code: trellis.BudgetTokens},
		"a budget of the day":         {replies: []Reply{day, good}, slept: []time.Duration{2 * time.Hour}},
		"an outage of three minutes":  {replies: []Reply{down, down, down, down, good}, slept: []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute}},
		"an outage of a day":          {replies: slices.Repeat([]Reply{down}, 149), code: trellis.ProviderDown, slept: append([]time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}, slices.Repeat([]time.Duration{5 * time.Minute}, 143)...)},
		"work that is cut off always": {replies: slices.Repeat([]Reply{cut}, 6), code: trellis.ProviderDown, slept: []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}},
		"down for as long as it says": {replies: []Reply{{Failure: &flow.Failure{Code: string(trellis.ProviderDown), At: now, ResumeAt: now.Add(10 * time.Minute)}}, good}, slept: []time.Duration{10 * time.Minute}},
		"no quota":                    {replies: []Reply{{Failure: &flow.Failure{Code: string(trellis.QuotaExhausted)}}}, code: trellis.QuotaExhausted},
		"limited until nobody knows":  {replies: []Reply{{Failure: &flow.Failure{Code: string(trellis.RateLimited)}}, good}, slept: []time.Duration{time.Minute}},
	} {
		f := &scripted{replies: c.replies}
		tries, used, paused := 2, 0, 0
		var told []time.Duration
		a := Policy{Repairs: 1, Eager: c.eager, Again: func(*flow.Failure) bool { tries--; return tries >= 0 }, Used: func(Reply) { used++ },
			Pause: func(_ flow.Flow, fail *flow.Failure) error {
				if until := fail.ResumeAt; !until.IsZero() {
					told = append(told, until.Sub(fail.At))
				}
				paused++
				return nil
			}, Resume: func(flow.Flow) error { paused--; return nil }}
		_, err := a.Call(f, Request{Role: trellis.Judge})
		var fail *flow.Failure
		if errors.As(err, &fail) != (c.code != "") || fail != nil && fail.Code != string(c.code) {
			t.Errorf("%s: got %v, want %q", name, err, c.code)
		}
		if !slices.Equal(f.slept, c.slept) || len(f.replies) > 0 || used != len(c.replies) || paused != 0 {
			t.Errorf("%s: slept %v, %d replies left, %d told, paused %d", name, f.slept, len(f.replies), used, paused)
		}
		if len(told) > 0 && !slices.Equal(told, f.slept) {
			t.Errorf("%s: told of %v, and slept %v", name, told, f.slept)
		}
		for i, r := range f.asked[1:] {
			if before := c.replies[i]; before.Session != r.Session || len(before.Problems) > 0 && (r.Repair == nil || !slices.Equal(r.Repair.Problems, before.Problems)) {
				t.Errorf("%s: call %d is %+v after %+v", name, i+2, r, before)
			}
		}
	}
}

// A first reply that was made ahead is not asked for or counted again; what follows it is as after any other reply.
func TestAskWithTheFirstReply(t *testing.T) {
	good := Reply{Answer: json.RawMessage(`{}`)}
	bad := Reply{Problems: []string{"/x: is missing"}, Text: Ref{Path: "1/answer.md"}, Session: "s1"}
	for name, c := range map[string]struct {
		first   Reply
		replies []Reply
		repair  bool
	}{
		"good":            {first: good},
		"repaired":        {first: bad, replies: []Reply{good}, repair: true},
		"passing failure": {first: passing(trellis.AgentExit), replies: []Reply{good}},
	} {
		f := &scripted{replies: c.replies}
		used := 0
		a := Policy{Repairs: 1, Again: func(*flow.Failure) bool { return true }, Used: func(Reply) { used++ }, Begun: &c.first}
		if _, err := a.Call(f, Request{Role: trellis.Research}); err != nil || len(f.asked) != len(c.replies) || used != len(c.replies) {
			t.Errorf("%s: %v after %d calls, %d counted", name, err, len(f.asked), used)
			continue
		}
		if len(f.asked) > 0 && (f.asked[0].Session != "s1" || (f.asked[0].Repair != nil) != c.repair) {
			t.Errorf("%s: then it asked %+v", name, f.asked[0])
		}
	}
}

// Whatever the reason for asking again, a call may use what the calls before it left, and is not made when nothing is left.
func TestAskAgainWithinWhatIsLeft(t *testing.T) {
	now := time.Now().UTC()
	for name, failed := range map[string]Reply{
		"crashed": passing(trellis.AgentExit),
		"invalid": {Problems: []string{"/x: is missing"}},
		"limited": {Failure: &flow.Failure{Code: string(trellis.RateLimited), At: now, ResumeAt: now.Add(time.Hour)}},
		"down":    {Failure: &flow.Failure{Code: string(trellis.ProviderDown), At: now}},
	} {
		t.Run(name, func(t *testing.T) {
			failed.Usage.InputTokens = 400
			f := &scripted{replies: slices.Repeat([]Reply{failed}, 4)}
			all, used := Limits{Wall: time.Minute, Tokens: 1000}, trellis.Usage{}
			a := Policy{Repairs: 9, Again: func(*flow.Failure) bool { return true }, Used: func(r Reply) { used = used.Add(r.Usage) },
				Left: func() (Limits, error) { return all.Remaining(used) }}
			_, err := a.Call(f, Request{Role: trellis.Judge, Limits: all})
			if fail := (*flow.Failure)(nil); !errors.As(err, &fail) || fail.Code != string(trellis.BudgetTokens) {
				t.Errorf("got %v", err)
			}
			var limits []int64
			for _, r := range f.asked {
				limits = append(limits, r.Limits.Tokens)
			}
			if !slices.Equal(limits, []int64{1000, 600, 200}) {
				t.Errorf("calls may use %d tokens", limits)
			}
		})
	}
}
