package board_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

// These files are those of htmx.org 4.0.1 at npm. An update has to change this table.
func TestLibrariesArePinned(t *testing.T) {
	for name, want := range map[string]string{
		"htmx.min.js":   "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
		"hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
		"LICENSE.htmx":  "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
	} {
		data, err := os.ReadFile("static/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
