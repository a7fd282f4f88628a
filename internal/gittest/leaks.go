package gittest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trellis-tasks/trellis/internal/patience"
)

// VerifyTestMain runs the tests of a package, and fails if goroutines are left. It waits for those that are about to end, since on
// a machine that stalls they need longer than goleak gives them.
func VerifyTestMain(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(patient{m, options}, options...)
}

// patient runs the tests of a package, and then waits for goroutines to end.
type patient struct {
	*testing.M
	options []goleak.Option
}

func (p patient) Run() int {
	code := p.M.Run()
	for end := patience.New(15 * time.Second); code == 0 && goleak.Find(p.options...) != nil && !end.Over(); {
	}
	return code
}
