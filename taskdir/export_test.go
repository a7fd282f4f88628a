package taskdir

// Shape is the task.json of an empty task, with every field.
const Shape = shape

// Edited returns the text of t's task.json after change, without writing it.
func Edited(t *Task, change func(t *Task, e *Edit) error) ([]byte, error) { return t.applyEdit(change) }

// Render returns the task.json of a new task.
func Render(n New) []byte {
	data, err := render(n)
	if err != nil {
		panic(err) // every field of New has a place in shape
	}
	return data
}
