package proc

// setTag has nothing to write a tag into here.
func setTag(int, tag) {}

func tagOf(int) tag { return 0 }
