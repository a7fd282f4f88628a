package proof_test

import (
	"crypto/ed25519"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proof"
)

// S3: a signed decision is that of its key, as it was written, and of nobody else.
func TestSignedDecision(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (proof.Approval{Decision: proof.Approve, By: "ann", At: noon}).Sign(private); err == nil {
		t.Error("a decision about nothing was signed")
	}
	signed, err := proof.Approval{Decision: proof.Approve, By: " ann", At: noon, Hash: "sha256:1"}.Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := proof.Append(nil, dir, signed); err != nil {
		t.Fatal(err)
	}
	list, problems, err := proof.Read(dir)
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
	for name, change := range map[string]func(*proof.Approval){
		"hash": func(a *proof.Approval) { a.Hash = "sha256:2" }, "step": func(a *proof.Approval) { a.Step = "x" },
		"by": func(a *proof.Approval) { a.By = "eve" }, "decision": func(a *proof.Approval) { a.Decision = proof.Reject },
		"at": func(a *proof.Approval) { a.At = noon.AddDate(1, 0, 0) }, "expires_at": func(a *proof.Approval) { a.ExpiresAt = noon.AddDate(9, 0, 0) },
	} {
		b := a
		if change(&b); b.SignedBy([]ed25519.PublicKey{public}) != "" {
			t.Errorf("the signature holds with another %s", name)
		}
	}
}

// S3: one person is one voter, whatever names are given; two persons are two voters by their keys or accounts.
func TestOnePersonIsOneVoter(t *testing.T) {
	yes := func(by, account, voter string) proof.Approval {
		return proof.Approval{Decision: proof.Approve, By: by, Account: account, Voter: voter, Hash: "h"}
	}
	for name, row := range map[string]struct {
		list []proof.Approval
		want proof.State
	}{
		"one account, two names": {[]proof.Approval{yes("ann", "ann@here", ""), yes("bob", "ann@here", "")}, proof.Pending},
		"two accounts":           {[]proof.Approval{yes("ann", "ann@here", ""), yes("ann", "bob@here", "")}, proof.Approved},
		"one key, two names":     {[]proof.Approval{yes("ann", "", "sha256:k"), yes("bob", "", "sha256:k")}, proof.Pending},
		"a key and an account":   {[]proof.Approval{yes("ann", "ann@here", ""), yes("bob", "", "sha256:k")}, proof.Approved},
		"by hand":                {[]proof.Approval{yes("ann", "", ""), yes("Ann", "", "")}, proof.Pending},
	} {
		if v := proof.Decide(row.list, "", "h", 2, noon); v.State != row.want {
			t.Errorf("%s: %s, want %s", name, v.State, row.want)
		}
	}
}
