package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// barPhases are the phases of a run that have a cell in its bar; barPlaces are phases that share the cell of another.
var barPhases = []string{"prepare", "implement", "check", "verify", "accept", "commit", "final-verify"}

var barPlaces = map[string]string{"claim": "prepare", "baseline": "prepare", "debug": "implement", "update": "commit", "deliver": "final-verify"}

// phaseBar returns a bar of how far a run is: phases that are done, the one that it is in, and those to come.
func phaseBar(phase string) string {
	if place, ok := barPlaces[phase]; ok {
		phase = place
	}
	reached := slices.Index(barPhases, phase) + 1 // 0 for a phase without a cell
	return strings.Repeat("▰", reached) + strings.Repeat("▱", len(barPhases)-reached)
}

// Terminals narrower than these show less of a line.
const (
	wideEnough   = 100 // for words in full
	narrowerThan = 64  // for tokens and cost
)

// row returns a task at work in one line: name, how far it is, what is done now, what it took.
func (t *activeTask) row(now time.Time, name, width int, colour bool) string {
	head := text.Pad(text.ClipMiddle(t.name, name), name) + "  "
	if t.wait != nil {
		head += phaseBar(t.phase) + " ‖ "
		return Paint(text.Clip(head+waitWords(*t.wait, now, width-text.Width(head)), width), "33", colour)
	}
	phase := t.phase
	switch {
	case t.round > 0 && width >= wideEnough:
		phase += fmt.Sprintf(", round %d", t.round)
	case t.round > 0:
		phase += fmt.Sprintf(" %d", t.round)
	}
	parts := []string{phase, text.Seconds(now.Sub(t.began).Seconds())}
	if used := text.UsageParts(t.usage()); width >= narrowerThan {
		if width < wideEnough && len(used) > 0 {
			used[0] = strings.TrimSuffix(used[0], " tokens")
		}
		parts = append(parts, used...)
	}
	if t.last != "" {
		parts = append(parts, text.OneLine(trellis.Visible(t.last)))
	}
	return text.Clip(head+phaseBar(t.phase)+" "+strings.Join(parts, " · "), width)
}

// minReasonWidth is how many columns of a reason have to be left for it to be useful.
const minReasonWidth = 20

// waitWords returns what is waited for, in at most width columns if possible. The time matters more than the reason.
func waitWords(w events.Wait, now time.Time, width int) string {
	words := text.OneLine(w.Text(now))
	over := text.Width(words) - width
	if over <= 0 {
		return words
	}
	if room := text.Width(w.Why) - over; room >= minReasonWidth {
		w.Why = text.Clip(w.Why, room)
		return text.OneLine(w.Text(now))
	}
	return text.OneLine(w.Short(now))
}

// waitingTasks returns one line about tasks that wait and do not run: for each kind of wait, how many and their names.
func waitingTasks(list []events.Event, now time.Time) string {
	var kinds []string
	of := map[string][]events.Event{}
	for _, w := range list {
		if of[w.Wait.For] == nil {
			kinds = append(kinds, w.Wait.For)
		}
		of[w.Wait.For] = append(of[w.Wait.For], w)
	}
	for i, kind := range kinds {
		var names []string
		for _, w := range of[kind] {
			names = append(names, w.Task)
		}
		words := of[kind][0].Wait.GroupText()
		if kind == "slot" {
			words = of[kind][0].Wait.Text(now)
		}
		kinds[i] = fmt.Sprintf("%d %s: %s", len(names), words, strings.Join(names, ", "))
	}
	return strings.Join(kinds, " · ")
}
