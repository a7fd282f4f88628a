package impure

import "os"

const effectName = "effect"

func effect() { os.Remove("x") }
