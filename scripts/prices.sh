#!/bin/sh
# Renews internal/prices/models.tsv, what models cost, from the npm package @pydantic/genai-prices (MIT license), which carries
# its data with it. Takes a version of it, or the newest. Prices are those of the day on which that version came out, at noon
# UTC, and of a request that is no longer than the provider's usual ones. Review the difference before you commit it.
set -eu
cd "$(dirname "$0")/.."
package=@pydantic/genai-prices
into=internal/prices/models.tsv
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

version=$(npm view "$package@${1:-latest}" version)
date=$(npm view "$package" time --json | node -e '
	let said = ""
	process.stdin.on("data", (part) => { said += part }).on("end", () => console.log(JSON.parse(said)[process.argv[1]].slice(0, 10)))' "$version")
npm pack --silent --pack-destination "$dir" "$package@$version" >/dev/null
tar -xzf "$dir"/*.tgz -C "$dir"

cat >"$dir/write.mjs" <<'JS'
import { calcPrice } from './package/dist/index.js'
const [name, version, date] = process.argv.slice(2)
const models = {
	anthropic: `claude-3-5-haiku claude-3-5-sonnet claude-3-7-sonnet claude-haiku-4-5 claude-sonnet-4 claude-sonnet-4-0 claude-sonnet-4-5
		claude-sonnet-4-6 claude-sonnet-5 claude-opus-4 claude-opus-4-0 claude-opus-4-1 claude-opus-4-5 claude-opus-4-6 claude-opus-4-7
		claude-opus-4-8 claude-opus-5 claude-opus-5-5 claude-fable-5 claude-fable-5-1`,
	openai: `codex-mini gpt-4.1 gpt-4.1-mini gpt-4o gpt-4o-mini gpt-5 gpt-5-codex gpt-5-mini gpt-5-nano gpt-5.1 gpt-5.1-codex gpt-5.1-codex-max
		gpt-5.1-codex-mini gpt-5.2 gpt-5.2-codex gpt-5.3-codex gpt-5.4 gpt-5.4-mini gpt-5.4-nano gpt-5.5 gpt-5.6-luna gpt-5.6-sol gpt-5.6-terra
		gpt-6-astra gpt-6-luna gpt-6-sol o3 o3-mini o4-mini`,
	google: `gemini-2.5-flash gemini-2.5-pro gemini-3-flash-preview gemini-3-pro-preview gemini-3.1-pro-preview gemini-3.5-flash gemini-3.8-flash`,
	'x-ai': `grok-4 grok-4-fast grok-4.3 grok-4.5 grok-4.6 grok-code-fast-1`,
	deepseek: `deepseek-chat deepseek-reasoner deepseek-v4-flash deepseek-v4-pro`,
	mistral: `codestral-2508 devstral-2512 mistral-large-2512 mistral-medium-3-5`,
	moonshotai: `kimi-k2.5 kimi-k2.6 kimi-k3`,
	zai: `glm-5.2 glm-5.3`,
	minimax: `minimax-m2.7 minimax-m3`,
}
const base = (price) => (price !== null && typeof price === 'object' ? price.base : price)
console.log(`# What models cost, in USD for a million tokens. Written by scripts/prices.sh: change it there.
# source: ${name} ${version}, MIT license, Copyright (c) Pydantic Services Inc.
# date: ${date}
# model\tinput\toutput\tcache read\tcache write; "-": not told`)
for (const [providerId, list] of Object.entries(models)) {
	for (const model of list.trim().split(/\s+/)) {
		const found = calcPrice({ input_tokens: 1, output_tokens: 1 }, model, { providerId, timestamp: new Date(`${date}T12:00:00Z`) })
		const p = found?.model_price
		if (p?.input_mtok === undefined || p.output_mtok === undefined) throw new Error(`there is no price of ${model}`)
		console.log([model, p.input_mtok, p.output_mtok, p.cache_read_mtok, p.cache_write_mtok].map((v) => base(v) ?? '-').join('\t'))
	}
}
JS
node "$dir/write.mjs" "$package" "$version" "$date" >"$dir/models.tsv"
mkdir -p "$(dirname "$into")"
mv "$dir/models.tsv" "$into"
echo "prices: $(grep -vc '^#' "$into") models of $date in $into"
