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

// SignaturesFile is the name of the file with the signatures, next to ProofsFile. It has one line per key.
const SignaturesFile = "proofs.sig"

// signaturePrefix precedes the head in the signed text, so that no other text can be mistaken for it.
const signaturePrefix = "trellis proofs 1 "

var (
	// ErrUnsigned means that there is no signature.
	ErrUnsigned = errors.New("the chain of proofs is not signed")
	// ErrOtherKey means that there is a signature, but not with this key.
	ErrOtherKey = errors.New("the chain of proofs is signed with another key")
	// ErrOtherHead means that this key signed other proofs: before some were added, cut off or replaced.
	ErrOtherHead = errors.New("the signature is for another head")
	// ErrSignature means that a signature for this key and head was not made with this key.
	ErrSignature = errors.New("the signature is false")
)

// signature is a line of proofs.sig.
type signature struct {
	Head string `json:"head"`
	Key  string `json:"key"` // sha256 of the public key in PKIX form
	Sig  []byte `json:"sig"` // base64
}

// Sign signs the head of the chain in dir, which is a Report's Overall. It replaces an earlier signature with the same key.
func Sign(disk *durable.Disk, dir, head string, key ed25519.PrivateKey) error {
	if hash, ok := strings.CutPrefix(head, hashPrefix); !ok || !isSHA256(hash) {
		return fmt.Errorf("signing proofs: %q is not the head of a chain", head)
	}
	name, err := keyName(key.Public())
	if err != nil {
		return fmt.Errorf("signing proofs: %w", err)
	}
	line, err := canonicalJSON(signature{Head: head, Key: name, Sig: ed25519.Sign(key, []byte(signaturePrefix+head))})
	if err != nil {
		return fmt.Errorf("signing proofs: %w", err)
	}
	err = withWriteLock(disk, dir, func() error {
		return disk.Edit(filepath.Join(dir, SignaturesFile), func(old []byte) ([]byte, error) {
			return append(append(signaturesOfOthers(old, name), line...), '\n'), nil
		})
	})
	if err != nil {
		return fmt.Errorf("signing proofs: %w", err)
	}
	return nil
}

// signaturesOfOthers returns the file without the lines of one key. Lines that can't be parsed are kept.
func signaturesOfOthers(data []byte, name string) (out []byte) {
	for line := range bytes.Lines(data) {
		var s signature
		if json.Unmarshal(line, &s) != nil || s.Key != name {
			out = append(append(out, bytes.TrimSuffix(line, []byte("\n"))...), '\n')
		}
	}
	return out
}

// VerifySignature returns nil if the owner of key signed head, and ErrUnsigned, ErrOtherKey, ErrOtherHead or ErrSignature
// otherwise.
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
		switch err := checkSignatureLine(bytes.TrimSuffix(line, []byte("\n")), name, head, key); {
		case err == nil:
			return nil
		case !errors.Is(err, ErrOtherKey) || errors.Is(verdict, ErrUnsigned):
			verdict = err
		}
	}
	return fmt.Errorf("%s: %w", path, verdict)
}

// checkSignatureLine returns an error unless line shows that the owner of key, whose name is given, signed head.
func checkSignatureLine(line []byte, name, head string, key ed25519.PublicKey) error {
	var s signature
	if err := json.Unmarshal(line, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	same, err := canonicalJSON(s)
	switch {
	case err != nil || !bytes.Equal(same, line):
		return fmt.Errorf("%w: it is not spelled as it was written", ErrSignature)
	case s.Key != name:
		return fmt.Errorf("%w, %s", ErrOtherKey, s.Key)
	case !ed25519.Verify(key, []byte(signaturePrefix+s.Head), s.Sig):
		return ErrSignature
	case s.Head != head:
		return fmt.Errorf("%w, %s", ErrOtherHead, s.Head)
	}
	return nil
}

// approvalPrefix precedes a decision in the signed text.
const approvalPrefix = "trellis approval 1 "

// Sign signs a decision with its hash. It counts wherever trust.keys contain the key, no matter how the decision got there.
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
	a.Sig = ed25519.Sign(key, append([]byte(approvalPrefix), line...))
	return a, nil
}

// SignedBy returns the name of the key in keys with which the decision, unchanged, was signed, or "".
func (a Approval) SignedBy(keys []ed25519.PublicKey) string {
	said := a
	said.Sig = nil
	line, err := said.encode()
	if err != nil || len(a.Sig) == 0 || a.Hash == "" {
		return ""
	}
	for _, key := range keys {
		if name, err := keyName(key); err == nil && name == a.Key && ed25519.Verify(key, append([]byte(approvalPrefix), line...), a.Sig) {
			return name
		}
	}
	return ""
}

// keyName returns the name of a public key in proofs.sig.
func keyName(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hashPrefix + hex.EncodeToString(sum[:]), nil
}

// ParsePrivateKey parses an Ed25519 key in PEM, as written by `openssl genpkey -algorithm ed25519`.
func ParsePrivateKey(data []byte) (ed25519.PrivateKey, error) {
	return parseKey[ed25519.PrivateKey](data, "private", "PKCS #8", x509.ParsePKCS8PrivateKey)
}

// ParsePublicKey parses an Ed25519 key in PEM, as written by `openssl pkey -pubout`.
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
