package templates

// Slot is a place in a template that takes a value.
type Slot = slot

// Slots are the slots of a template, those of its parts first, in the order of its header.
func Slots(name string) ([]Slot, error) {
	t, err := load(name, Override{})
	if err != nil {
		return nil, err
	}
	return t.slots, nil
}
