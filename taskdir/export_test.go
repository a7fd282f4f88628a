package taskdir

// Shape is a task.json with nothing in it.
const Shape = shape

// Edited is the text of a task.json after change, without a disk.
func Edited(t *Task, change func(t *Task, e *Edit) error) ([]byte, error) { return t.edited(change) }
