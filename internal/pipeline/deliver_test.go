package pipeline

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// played is a flow whose deliveries return the failures in fails first, and that records calls and sleeps.
type played struct {
	flow.Flow
	fails []*flow.Failure
	did   []string
	slept []time.Duration
}

func (p *played) Do(name string, _, out any) error {
	p.did = append(p.did, name)
	if name != string(deliver) {
		return nil
	}
	if n := len(p.slept); n < len(p.fails) {
		return p.fails[n]
	}
	return json.Unmarshal([]byte(`{"pr_url": "https://x/1", "notes": ["a note"]}`), out)
}

func (p *played) Sleep(d time.Duration) error { p.slept = append(p.slept, d); return nil }

func TestHandOver(t *testing.T) {
	passing := func(code trellis.Code) *flow.Failure { return &flow.Failure{Code: string(code), Retryable: true} }
	asks := func(wait time.Duration) *flow.Failure {
		at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
		return &flow.Failure{Code: string(trellis.PRFailed), Retryable: true, At: at, ResumeAt: at.Add(wait)}
	}
	lasting := flow.Fail(string(trellis.PushFailed), "a hook")
	for name, c := range map[string]struct {
		code  int
		want  DeliverySettings
		fails []*flow.Failure
		slept []time.Duration
		fail  error
		did   int
	}{
		"begun by older code":     {code: 2, want: DeliverySettings{Push: true, PR: true}},
		"not wanted":              {code: 3},
		"at once":                 {code: 3, want: DeliverySettings{Push: true}, did: 2},
		"after a while":           {code: 3, want: DeliverySettings{Push: true, PR: true}, fails: []*flow.Failure{passing(trellis.PushFailed), passing(trellis.PRFailed)}, slept: []time.Duration{10 * time.Second, 20 * time.Second}, did: 4},
		"not within its attempts": {code: 3, want: DeliverySettings{PR: true}, fails: []*flow.Failure{passing(trellis.PRFailed), passing(trellis.PRFailed), passing(trellis.PRFailed)}, slept: []time.Duration{10 * time.Second, 20 * time.Second}, fail: passing(trellis.PRFailed), did: 4},
		"when it may":             {code: 3, want: DeliverySettings{PR: true}, fails: []*flow.Failure{asks(time.Minute), asks(time.Second)}, slept: []time.Duration{time.Minute, 20 * time.Second}, did: 4},
		"not for so long":         {code: 3, want: DeliverySettings{PR: true}, fails: []*flow.Failure{asks(time.Hour)}, fail: asks(time.Hour), did: 2},
		"a hook says no":          {code: 3, want: DeliverySettings{Push: true}, fails: []*flow.Failure{lasting}, fail: lasting, did: 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := &played{fails: c.fails}
			r := &run{in: Input{Code: c.code}, job: Job{Delivery: c.want, Limits: Limits{Attempts: 3}}, round: 2}
			err := r.deliver(f)
			if (err == nil) != (c.fail == nil) || c.fail != nil && !errors.Is(err, c.fail) || len(f.did) != c.did || !slices.Equal(f.slept, c.slept) {
				t.Errorf("got %v, did %q, slept %v", err, f.did, f.slept)
			}
			if done := c.did > 0 && c.fail == nil; done && (r.rep.Delivery.PRURL != "https://x/1" || len(r.rep.Notes) != 1 || r.rep.Rounds != 2) {
				t.Errorf("got %+v", r.rep)
			}
		})
	}
}
