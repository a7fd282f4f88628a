package runnertest

const (
	ChildAny = "TRELLIS_TEST_ANY" // a child counts every step on the disk, not those of its journal alone
)
