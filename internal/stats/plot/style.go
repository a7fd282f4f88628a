package plot

import _ "embed"

// Style is the style sheet of drawings, for light and dark.
//
//go:embed plot.css
var Style string
