package config

// prices checks the prices of models. The prices of the provider's cache default to that of input.
func (d *decoder) prices(c *Config) {
	for _, model := range sortedKeys(c.Agents.Prices) {
		key, p := "agents.prices."+model, c.Agents.Prices[model]
		for _, part := range []string{"input", "output"} {
			if !d.isSet(key + "." + part) {
				d.report(key, " does not say what %s costs, in USD for a million tokens: %s: …", part, part)
			}
		}
		if !d.isSet(key + ".cache_read") {
			p.CacheRead = p.Input
		}
		if !d.isSet(key + ".cache_write") {
			p.CacheWrite = p.Input
		}
		c.Agents.Prices[model] = p
	}
}
