package proof

// ProofLine returns the line of the file for a record, with its newline.
func ProofLine(p Proof) string {
	line, err := canonicalJSON(p)
	if err != nil {
		panic(err)
	}
	return string(line) + "\n"
}
