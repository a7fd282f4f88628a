package proof

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// SignaturesFile is the file's name, next to ProofsFile. Each key has one line in it.
const SignaturesFile = "proofs.sig"

// signedText goes before the head that is signed, so that no other text can pass for it.
const signedText = "trellis proofs 1 "

var (
	// ErrUnsigned says that nobody has signed.
	ErrUnsigned = errors.New("the chain of proofs is not signed")
	// ErrOtherKey says that somebody has signed, but not with this key.
	ErrOtherKey = errors.New("the chain of proofs is signed with another key")
	// ErrOtherHead says that this key has signed other proofs: before some were added, cut off or replaced.
	ErrOtherHead = errors.New("the signature is for another head")
	// ErrSignature says that a signature which claims this key and head is not by this key.
	ErrSignature = errors.New("the signature is false")
)

// signature is a line of proofs.sig.
type signature struct {
	Head string `json:"head"`
	Key  string `json:"key"` // sha256 of the public key in PKIX form
	Sig  []byte `json:"sig"` // base64
}

// Sign signs the head of the chain in dir, a Report's Overall, in the place of what this key signed before.
func Sign(disk *durable.Disk, dir, head string, key ed25519.PrivateKey) error {
	if hash, ok := strings.CutPrefix(head, hashPrefix); !ok || !isSHA256(hash) {
		return fmt.Errorf("signing proofs: %q is not the head of a chain", head)
	}
	name, err := keyName(key.Public())
	if err != nil {
		return fmt.Errorf("signing proofs: %w", err)
	}
	line, err := canonical(signature{Head: head, Key: name, Sig: ed25519.Sign(key, []byte(signedText+head))})
	if err != nil {
		return fmt.Errorf("signing proofs: %w", err)
	}
	err = locked(disk, dir, func() error {
		return disk.Edit(filepath.Join(dir, SignaturesFile), func(old []byte) ([]byte, error) {
			return append(append(signaturesOfOthers(old, name), line...), '\n'), nil
		})
	})
	if err != nil {
		return fmt.Errorf("signing proofs: %w", err)
	}
	return nil
}

// signaturesOfOthers is the file without the lines of one key, what can't be read included.
func signaturesOfOthers(data []byte, name string) (out []byte) {
	for line := range bytes.Lines(data) {
		var s signature
		if json.Unmarshal(line, &s) != nil || s.Key != name {
			out = append(append(out, bytes.TrimSuffix(line, []byte("\n"))...), '\n')
		}
	}
	return out
}

// VerifySignature checks that the owner of key signed head. It says ErrUnsigned, ErrOtherKey, ErrOtherHead
// or ErrSignature when not.
func VerifySignature(dir, head string, key ed25519.PublicKey) error {
	name, err := keyName(key)
	if err != nil {
		return fmt.Errorf("checking signature: %w", err)
	}
	path := filepath.Join(dir, SignaturesFile)
	data, err := durable.ReadRecords(dir, SignaturesFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checking signature: %w", err)
	}
	verdict := ErrUnsigned
	for line := range bytes.Lines(data) {
		switch err := judgeSignature(bytes.TrimSuffix(line, []byte("\n")), name, head, key); {
		case err == nil:
			return nil
		case !errors.Is(err, ErrOtherKey) || errors.Is(verdict, ErrUnsigned):
			verdict = err
		}
	}
	return fmt.Errorf("%s: %w", path, verdict)
}

// judgeSignature says why a line does not show that the owner of key, which has that name, signed head.
func judgeSignature(line []byte, name, head string, key ed25519.PublicKey) error {
	var s signature
	if err := json.Unmarshal(line, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	same, err := canonical(s)
	switch {
	case err != nil || !bytes.Equal(same, line):
		return fmt.Errorf("%w: it is not spelled as it was written", ErrSignature)
	case s.Key != name:
		return fmt.Errorf("%w, %s", ErrOtherKey, s.Key)
	case !ed25519.Verify(key, []byte(signedText+s.Head), s.Sig):
		return ErrSignature
	case s.Head != head:
		return fmt.Errorf("%w, %s", ErrOtherHead, s.Head)
	}
	return nil
}

// signedApproval goes before a decision that is signed.
const signedApproval = "trellis approval 1 "

// Sign signs a decision with its hash. Whose trust.keys have the key counts it, however it came to them.
func (a Approval) Sign(key ed25519.PrivateKey) (Approval, error) {
	name, err := keyName(key.Public())
	if err != nil {
		return a, fmt.Errorf("signing the decision: %w", err)
	}
	if a.Hash == "" {
		return a, errors.New("signing the decision: it says of nothing in particular")
	}
	a.By, a.Account, a.Key, a.Sig = strings.TrimSpace(a.By), "", name, nil
	line, err := a.encode()
	if err != nil {
		return a, fmt.Errorf("signing the decision: %w", err)
	}
	a.Sig = ed25519.Sign(key, append([]byte(signedApproval), line...))
	return a, nil
}

// SignedBy is the name of the key among those given that signed a decision as it is, "" when none did.
func (a Approval) SignedBy(keys []ed25519.PublicKey) string {
	said := a
	said.Sig = nil
	line, err := said.encode()
	if err != nil || len(a.Sig) == 0 || a.Hash == "" {
		return ""
	}
	for _, key := range keys {
		if name, err := keyName(key); err == nil && name == a.Key && ed25519.Verify(key, append([]byte(signedApproval), line...), a.Sig) {
			return name
		}
	}
	return ""
}

// keyName is how proofs.sig names a public key.
func keyName(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hashPrefix + hex.EncodeToString(sum[:]), nil
}

// ParsePrivateKey reads an Ed25519 key in PEM, as `openssl genpkey -algorithm ed25519` writes it.
func ParsePrivateKey(data []byte) (ed25519.PrivateKey, error) {
	return parseKey[ed25519.PrivateKey](data, "private", "PKCS #8", x509.ParsePKCS8PrivateKey)
}

// ParsePublicKey reads an Ed25519 key in PEM, as `openssl pkey -pubout` writes it.
func ParsePublicKey(data []byte) (ed25519.PublicKey, error) {
	return parseKey[ed25519.PublicKey](data, "public", "PKIX", x509.ParsePKIXPublicKey)
}

func parseKey[K any](data []byte, kind, format string, parse func(der []byte) (any, error)) (key K, err error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != strings.ToUpper(kind)+" KEY" {
		return key, fmt.Errorf("reading key: it is no %s key in PEM (%s)", kind, format)
	}
	found, err := parse(block.Bytes)
	if err != nil {
		return key, fmt.Errorf("reading key: %w", err)
	}
	key, ok := found.(K)
	if !ok {
		return key, fmt.Errorf("reading key: it is a %T, not one for Ed25519", found)
	}
	return key, nil
}
