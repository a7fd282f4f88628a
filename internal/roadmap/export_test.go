package roadmap

// Set returns src with a cell of a step set to value.
func Set(src []byte, step string, c Cell, value string) ([]byte, error) {
	r, err := Parse("", src)
	if err != nil {
		return nil, err
	}
	if r, err = r.set(step, c, value); err != nil {
		return nil, err
	}
	return r.src, nil
}
