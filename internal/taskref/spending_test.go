package taskref

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// Learn comes to the same result in whatever order it is called, and however often, and never to less.
func TestSpendingOnlyGrows(t *testing.T) {
	t.Parallel()
	heard := []Spending{
		{"a": {"2026-02-01", 100, 1}, "b": {"2026-02-01", 5, 0}}, {"a": {"2026-02-01", 70, 2.5}}, {"a": {"2026-01-31", 900, 9}, "c": {"2026-02-02", 1, 0.25}}, {"b": {"2026-02-02", 3, 0}},
	}
	want := Spending{"a": {"2026-02-01", 100, 2.5}, "b": {"2026-02-02", 3, 0}, "c": {"2026-02-02", 1, 0.25}}
	for first := range heard {
		s := Spending{}
		for i := range 2 * len(heard) {
			s.Learn(heard[(first+i)%len(heard)])
		}
		if !maps.Equal(s, want) || s.Learn(want) {
			t.Errorf("from %d on: %v", first, s)
		}
	}
	if got := want.Between("2026-02-02", "2026-02-09"); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if got := want.Between("2026-01-01", "2026-02-01"); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// The message of a state has what was spent, and text in place of valid numbers is ignored.
func TestSpendingInMessages(t *testing.T) {
	t.Parallel()
	s := State{Task: "02-01-bye", At: time.Date(2026, 2, 1, 9, 0, 0, 0, time.UTC), Spending: Spending{"b": {"2026-02-01", 5, 0}, "a": {"2026-02-01", 1234567, 0.25}}}
	message := s.message("taken")
	if !strings.Contains(message, "\nSpent: a 2026-02-01 1234567 0.25, b 2026-02-01 5 0\n") {
		t.Errorf("the message is\n%s", message)
	}
	if got, ok := parseState(s.Task, "c", message); !ok || !maps.Equal(got.Spending, s.Spending) {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, said := range []string{"", "a", "a 2026-02-01 -5 0", "a 2026-02-01 5 NaN", "a 2026-02-01 5 +Inf", "../a 2026-02-01 5 0", "a today 5 0", "a 2026-02-01 99999999999999999999 0", "a 2026-02-01 5 -1", "a 2026-02-01 5 0 0"} {
		if got, ok := parseState(s.Task, "c", "trellis: x\n\nSpent: "+said+"\n"); !ok || got.Spending != nil {
			t.Errorf("%q: %v", said, got.Spending)
		}
	}
	many := Spending{}
	for i := range 3 * maxMachines {
		many[fmt.Sprint("m", i)] = Spent{"2026-02-01", int64(i % 2), 0} // every other machine used nothing
	}
	many["z-largest"] = Spent{"2026-02-01", 2, 0}
	s.Spending = many
	if got, ok := parseState(s.Task, "c", s.message("taken")); !ok || len(got.Spending) != maxMachines || got.Spending["z-largest"] != many["z-largest"] || got.Spending["m0"] != (Spent{}) {
		t.Errorf("of many are told %v", got.Spending)
	}
}
