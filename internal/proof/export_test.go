package proof

// ProofLine is the line of the file that a record is, with its newline.
func ProofLine(p Proof) string {
	line, err := canonicalJSON(p)
	if err != nil {
		panic(err)
	}
	return string(line) + "\n"
}
