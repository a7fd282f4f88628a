package evidence_test

import (
	"crypto/ed25519"
	"testing"

	"github.com/trellis-tasks/trellis/internal/evidence"
)

// S3: a decision that is signed is its key's, as it was written, and nobody else's.
func TestSignedDecision(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (evidence.Approval{Decision: evidence.Approve, By: "ann", At: noon}).Sign(private); err == nil {
		t.Error("a decision about nothing was signed")
	}
	signed, err := evidence.Approval{Decision: evidence.Approve, By: " ann", At: noon, Hash: "sha256:1"}.Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := evidence.Append(nil, dir, signed); err != nil {
		t.Fatal(err)
	}
	list, problems, err := evidence.Read(dir)
	if err != nil || len(problems) > 0 || len(list) != 1 {
		t.Fatalf("got %v %v %v", list, problems, err)
	}
	a := list[0]
	if a.SignedBy([]ed25519.PublicKey{other, public}) != a.Key || a.Key == "" {
		t.Error("the signature does not hold when it is read again")
	}
	if a.SignedBy([]ed25519.PublicKey{other}) != "" || a.SignedBy(nil) != "" {
		t.Error("it is taken for that of another key")
	}
	for name, change := range map[string]func(*evidence.Approval){
		"hash": func(a *evidence.Approval) { a.Hash = "sha256:2" }, "step": func(a *evidence.Approval) { a.Step = "x" },
		"by": func(a *evidence.Approval) { a.By = "eve" }, "decision": func(a *evidence.Approval) { a.Decision = evidence.Reject },
		"at": func(a *evidence.Approval) { a.At = noon.AddDate(1, 0, 0) }, "expires_at": func(a *evidence.Approval) { a.ExpiresAt = noon.AddDate(9, 0, 0) },
	} {
		b := a
		if change(&b); b.SignedBy([]ed25519.PublicKey{public}) != "" {
			t.Errorf("the signature holds with another %s", name)
		}
	}
}

// S3: one person is one voter, whatever names are given; two are two by their keys or accounts.
func TestOnePersonIsOneVoter(t *testing.T) {
	yes := func(by, account, voter string) evidence.Approval {
		return evidence.Approval{Decision: evidence.Approve, By: by, Account: account, Voter: voter, Hash: "h"}
	}
	for name, row := range map[string]struct {
		list []evidence.Approval
		want evidence.State
	}{
		"one account, two names": {[]evidence.Approval{yes("ann", "ann@here", ""), yes("bob", "ann@here", "")}, evidence.Pending},
		"two accounts":           {[]evidence.Approval{yes("ann", "ann@here", ""), yes("ann", "bob@here", "")}, evidence.Approved},
		"one key, two names":     {[]evidence.Approval{yes("ann", "", "sha256:k"), yes("bob", "", "sha256:k")}, evidence.Pending},
		"a key and an account":   {[]evidence.Approval{yes("ann", "ann@here", ""), yes("bob", "", "sha256:k")}, evidence.Approved},
		"by hand":                {[]evidence.Approval{yes("ann", "", ""), yes("Ann", "", "")}, evidence.Pending},
	} {
		if v := evidence.Decide(row.list, "", "h", 2, noon); v.State != row.want {
			t.Errorf("%s: %s, want %s", name, v.State, row.want)
		}
	}
}
