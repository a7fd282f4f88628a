package board

import (
	"fmt"
	"testing"

	"github.com/trellis-tasks/trellis/internal/status"
)

// The phases that began last are kept, and know when they end.
func TestTimelineKeepsTheNewest(t *testing.T) {
	var line timeline
	for i := range keptSpans + 5 {
		line.add(status.Line{Kind: status.KindStart, Run: "01-01-x/1", ID: fmt.Sprint(i), Activity: "verify", Round: i})
	}
	line.add(status.Line{Kind: status.KindDone, Run: "01-01-x/1", ID: "2"}) // one that is not kept
	line.add(status.Line{Kind: status.KindDone, Run: "01-01-x/1", ID: fmt.Sprint(keptSpans + 4), Seconds: 2})
	if first, last := line.spans[0], line.spans[len(line.spans)-1]; len(line.spans) != keptSpans || first.Round != 5 || first.State != "now" || last.State != "done" {
		t.Errorf("got %d, from %+v to %+v", len(line.spans), first, last)
	}
}
