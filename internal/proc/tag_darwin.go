package proc

import "os"

// startTagged has nothing to write a tag into here.
func startTagged(path string, argv []string, attr *os.ProcAttr, _ tag) (*os.Process, error) {
	return os.StartProcess(path, argv, attr)
}

func tagOf(int) tag { return 0 }
