package main

import (
	"errors"
	"strings"
	"testing"
)

// What is judged is what was read (edge S2): the words of a branch that is left while the judge looks are not taken for
// trusted because those of the next one are.
func TestWhileStill(t *testing.T) {
	gone := errors.New("gone")
	tests := []struct {
		name  string
		reads []string // what stands there, one reading after the other; the last stays
		fails error    // of the judge
		want  string
		err   string
	}{
		{name: "still", reads: []string{"mine"}, want: "mine"},
		{name: "another branch meanwhile", reads: []string{"theirs", "mine"}, want: "mine"},
		{name: "another branch after that too", reads: []string{"theirs", "theirs", "theirs", "mine", "mine"}, want: "theirs"},
		{name: "there and back", reads: []string{"theirs", "mine", "theirs", "mine"}, want: "mine"},
		{name: "untrusted", reads: []string{"theirs"}, fails: gone, err: "gone"},
		{name: "restless", reads: strings.Split(strings.Repeat("a b ", 50), " "), err: "change all the time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := -1
			read := func() (string, error) {
				n = min(n+1, len(tt.reads)-1)
				return tt.reads[n], nil
			}
			judged := ""
			got, v, err := whileStill(read, func() (string, error) {
				judged = tt.reads[n]
				return judged, tt.fails
			})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want || v != got {
				t.Errorf("got %q with a verdict of %q, %v; want %q", got, v, err, tt.want)
			}
		})
	}
}
