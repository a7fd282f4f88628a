package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Format is an accepted plan as plan.json shows it.
func Format(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("formatting the plan: %w", err)
	}
	return append(b.Bytes(), '\n'), nil
}
