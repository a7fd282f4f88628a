package proof_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
)

// pair returns a new key pair, written as PEM and parsed again.
func pair(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, open := encode(t, private, public)
	gotPrivate, err := proof.ParsePrivateKey(secret)
	if err != nil || !gotPrivate.Equal(private) {
		t.Fatalf("got %v", err)
	}
	gotPublic, err := proof.ParsePublicKey(open)
	if err != nil || !gotPublic.Equal(public) {
		t.Fatalf("got %v", err)
	}
	return gotPublic, gotPrivate
}

// encode returns a key pair as openssl writes it.
func encode(t *testing.T, private, public any) (secret, open []byte) {
	t.Helper()
	p8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	pkix, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: p8}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
}

func sign(t *testing.T, dir, head string, key ed25519.PrivateKey) {
	t.Helper()
	if err := proof.Sign(nil, dir, head, key); err != nil {
		t.Fatal(err)
	}
}

func TestSignatures(t *testing.T) {
	dir, w := short(t)
	head, before := verify(t, dir, w).Overall, verify(t, dir, w).Records[1].Hash
	ann, annKey := pair(t)
	bob, bobKey := pair(t)
	check := func(what string, key ed25519.PublicKey, want error) {
		t.Helper()
		err := proof.VerifySignature(dir, head, key)
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	check("without a file", ann, proof.ErrUnsigned)
	sign(t, dir, head, bobKey)
	check("another key", ann, proof.ErrOtherKey)
	sign(t, dir, before, annKey)
	check("another head", ann, proof.ErrOtherHead)
	sign(t, dir, head, bobKey)
	check("another head, and another key after it", ann, proof.ErrOtherHead)
	sign(t, dir, head, annKey)
	check("after both signed", ann, nil)
	check("after both signed", bob, nil)
	file := filepath.Join(dir, proof.SignaturesFile)
	data, err := os.ReadFile(file)
	if err != nil || bytes.Count(data, []byte("\n")) != 2 || bytes.Contains(data, []byte(before)) {
		t.Fatalf("got %s %v, want one line of each key", data, err)
	}
	if a := verify(t, dir, w); !a.OK() || a.Overall != head {
		t.Errorf("after signing: got %+v", a)
	}
	bobs, anns, _ := strings.Cut(string(data), "\n")
	stolen := strings.Replace(bobs, bobs[strings.Index(bobs, `"key"`):strings.Index(bobs, `"sig"`)], anns[strings.Index(anns, `"key"`):strings.Index(anns, `"sig"`)], 1)
	for what, test := range map[string]struct {
		text string
		want error
	}{
		"a head that was changed":       {strings.Replace(anns, head, before, 1), proof.ErrSignature},
		"a signature by another":        {stolen + "\n", proof.ErrSignature},
		"a line that is not valid JSON": {"ann was here\n", proof.ErrSignature},
		"a line with a space":           {" " + anns, proof.ErrSignature},
		"only another's":                {bobs + "\n", proof.ErrOtherKey},
		"garbage, then a good one":      {"{}\nx\n" + anns, nil},
		"a bad one, then a good one":    {stolen + "\n" + anns, nil},
		"garbage, then another's":       {"x\n" + bobs + "\n", proof.ErrSignature},
		"an empty file":                 {"", proof.ErrUnsigned},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		check(what, ann, test.want)
	}
	for i := range len(anns) - 1 { // no byte of a signature may change either
		text := []byte(anns)
		text[i] ^= 1
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if proof.VerifySignature(dir, head, ann) == nil {
			t.Errorf("byte %d was flipped, and the signature holds", i)
		}
	}
}

// A signature keeps what others wrote into the file, and is written whole or not at all.
func TestSignSurvives(t *testing.T) {
	ann, key := pair(t)
	head := "sha256:" + sha("head")
	for fail := 1; ; fail++ {
		dir := t.TempDir()
		file := filepath.Join(dir, proof.SignaturesFile)
		if err := os.WriteFile(file, []byte("a note"), 0o644); err != nil {
			t.Fatal(err)
		}
		broken, step := errors.New("disk on fire"), 0
		err := proof.Sign(&durable.Disk{Fault: func(string, string) error {
			if step++; step == fail {
				return broken
			}
			return nil
		}}, dir, head, key)
		text, readErr := os.ReadFile(file)
		if readErr != nil || string(text) != "a note" && !(strings.HasPrefix(string(text), "a note\n{") && proof.VerifySignature(dir, head, ann) == nil) {
			t.Errorf("fault at step %d: got %q %v", fail, text, readErr)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, broken) {
			t.Errorf("fault at step %d: got %v", fail, err)
		}
	}
	for _, head := range []string{"", "sha256:", "sha256:xyz", sha("head"), "sha256:" + strings.ToUpper(sha("head"))} {
		if err := proof.Sign(nil, t.TempDir(), head, key); err == nil {
			t.Errorf("signed %q", head)
		}
	}
}

func TestParseKeysRefuses(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, open := encode(t, other, other.Public())
	public, private := pair(t)
	mySecret, myOpen := encode(t, private, public)
	for what, data := range map[string][]byte{"another kind": secret, "public": myOpen, "nothing": nil, "text": []byte("key"),
		"broken": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})} {
		if _, err := proof.ParsePrivateKey(data); err == nil || !strings.HasPrefix(err.Error(), "reading key: ") {
			t.Errorf("private, %s: got %v", what, err)
		}
	}
	for what, data := range map[string][]byte{"another kind": open, "private": mySecret, "nothing": nil,
		"broken": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})} {
		if _, err := proof.ParsePublicKey(data); err == nil || !strings.HasPrefix(err.Error(), "reading key: ") {
			t.Errorf("public, %s: got %v", what, err)
		}
	}
}

// absent skips a test because something that it needs is missing. In CI it fails: CI has all that tests need.
func absent(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Keys come from openssl, and openssl can check our signatures.
func TestSignWithOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		absent(t, "there is no openssl to compare with: "+err.Error())
	}
	dir := t.TempDir()
	private, public := filepath.Join(dir, "key.pem"), filepath.Join(dir, "key.pub")
	for _, args := range [][]string{{"genpkey", "-algorithm", "ed25519", "-out", private}, {"pkey", "-in", private, "-pubout", "-out", public}} {
		if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
			absent(t, "this openssl knows no Ed25519: "+string(out))
		}
	}
	secret, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	key, err := proof.ParsePrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	check, err := proof.ParsePublicKey(open)
	if err != nil {
		t.Fatal(err)
	}
	head := "sha256:" + sha("head")
	sign(t, dir, head, key)
	if err := proof.VerifySignature(dir, head, check); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, proof.SignaturesFile))
	if err != nil {
		t.Fatal(err)
	}
	var line struct{ Sig []byte }
	if err := json.Unmarshal(data, &line); err != nil {
		t.Fatal(err)
	}
	text, sig := filepath.Join(dir, "text"), filepath.Join(dir, "sig")
	if err := errors.Join(os.WriteFile(text, []byte("trellis proofs 1 "+head), 0o600), os.WriteFile(sig, line.Sig, 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", text, "-sigfile", sig).CombinedOutput(); err != nil {
		t.Errorf("got %v: %s", err, out)
	}
}
