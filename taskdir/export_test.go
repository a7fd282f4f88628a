package taskdir

// Shape is a task.json with nothing in it.
const Shape = shape

// Edited is the text of a task.json after change, without a disk.
func Edited(t *Task, change func(t *Task, e *Edit) error) ([]byte, error) { return t.applyEdit(change) }

// Render is the task.json of a new task.
func Render(n New) []byte {
	data, err := render(n)
	if err != nil {
		panic(err) // every field of New has a place in shape
	}
	return data
}
