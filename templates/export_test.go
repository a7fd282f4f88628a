package templates

import "strings"

// Slot is a place in a template that takes a value.
type Slot = slot

// Slots returns the slots of a template, those of its parts first, in the order of its header.
func Slots(name string) ([]Slot, error) {
	t, err := load(name, Override{})
	if err != nil {
		return nil, err
	}
	return t.slots, nil
}

// Purpose returns what a template's header says before its slots: what the template is for, and when it is used.
func Purpose(name string) string {
	src, err := files.ReadFile(name + suffix)
	if err != nil {
		return ""
	}
	header, _, _ := cutHeader(string(src))
	said, _, _ := strings.Cut(strings.TrimPrefix(header, "<!--"), "\nSlots:\n")
	_, said, _ = strings.Cut(said, name+": ")
	return strings.TrimSpace(said)
}
