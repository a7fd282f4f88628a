package pipeline

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// checked is a flow whose checks return the results given, as JSON; its other activities do nothing.
type checked struct {
	flow.Flow
	checks string
}

func (c checked) Do(name string, _, out any) error {
	if name != string(verify) && name != string(final) {
		return nil
	}
	return json.Unmarshal([]byte(c.checks), out)
}

// Edge S7: a run that began while checks had network access is not judged by its baseline once they no longer have it.
func TestNetworkThatIsTakenAway(t *testing.T) {
	const older, former = `{"command": "make", "code": 0, "sandbox": "bubblewrap 0.9"}`, `{"command": "make", "code": 0, "sandbox": "bubblewrap 0.9", "isolated": false}`
	const isolated = `{"command": "make", "code": 0, "sandbox": "bubblewrap 0.9", "isolated": true}`
	failed := strings.Replace(isolated, `0,`, `1,`, 1)
	for name, c := range map[string]struct {
		base, now string
		stops     bool
		trouble   bool
	}{
		"passes all the same":             {base: former, now: isolated},
		"fails":                           {base: former, now: failed, stops: true},
		"fails, and always had none":      {base: isolated, now: failed, trouble: true},
		"fails, and has one again":        {base: isolated, now: strings.Replace(former, `0,`, `1,`, 1), trouble: true},
		"failed then, and for that now":   {base: strings.Replace(former, `0,`, `1,`, 1), now: strings.Replace(failed, `"isolated"`, `"offline": true, "isolated"`, 1), stops: true},
		"failed then, and otherwise now":  {base: strings.Replace(former, `0,`, `1,`, 1), now: failed, trouble: true},
		"was not run at base":             {base: strings.Replace(former, "make", "sh test.sh", 1), now: failed, trouble: true},
		"nobody wrote down what it had":   {base: older, now: failed, trouble: true},
		"failed then, and nobody knows":   {base: strings.Replace(older, `0,`, `1,`, 1), now: strings.Replace(failed, `"isolated"`, `"offline": true, "isolated"`, 1), trouble: true},
		"counts for nothing, known to be": {base: former, now: strings.Replace(failed, `"isolated"`, `"known": true, "isolated"`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ask := range []func(*run, flow.Flow) (*trouble, error){
				func(r *run, f flow.Flow) (*trouble, error) { return r.verify(f, nil) },
				func(r *run, f flow.Flow) (*trouble, error) { return r.final(f) },
			} {
				var base CommandResult
				if err := json.Unmarshal([]byte(c.base), &base); err != nil {
					t.Fatal(err)
				}
				r := &run{in: Input{Task: "02-01-bye", Code: 1}, rep: Report{Baseline: Checks{Results: []CommandResult{base}}}}
				found, err := ask(r, checked{checks: `{"results": [` + c.now + `]}`})
				var fail *flow.Failure
				if errors.As(err, &fail) != c.stops || c.stops && (fail.Code != string(trellis.HookFailed) || !strings.Contains(fail.Detail, "sandbox_network: [verify]") || !strings.Contains(fail.Detail, "trellis retry 02-01-bye")) {
					t.Errorf("got %v", err)
				}
				if (found != nil) != c.trouble {
					t.Errorf("got %+v", found)
				}
			}
		})
	}
}

// Edge S7: a change of network access is reported only if the access at the beginning of the run was recorded.
func TestNetworkThatMayHaveBeen(t *testing.T) {
	now := map[string]string{"network verify": "none", "network setup": "yes"}
	for name, c := range map[string]struct {
		then string
		told bool
	}{
		"begun by an older version": {then: `{}`},
		"as it was":                 {then: `{"network verify": "none", "network setup": "yes"}`},
		"taken away":                {then: `{"network verify": "yes", "network setup": "yes"}`, told: true},
		"given":                     {then: `{"network verify": "none", "network setup": "none"}`, told: true},
	} {
		var then map[string]string
		if err := json.Unmarshal([]byte(c.then), &then); err != nil {
			t.Fatal(err)
		}
		if _, notes := drift(then, now); (len(notes) > 0) != c.told {
			t.Errorf("%s: got %q", name, notes)
		}
	}
}
