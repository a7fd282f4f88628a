#!/bin/sh
# Builds the pages of the project as a site in bin/site, without a network: README.md is the first page, docs/README.md the contents.
# Links that lead out of docs/ go to the repository.
set -eu
cd "$(dirname "$0")/.."
command -v mkdocs >/dev/null || { echo 'site: next: make setup-release' >&2; exit 1; }
src=bin/site-src blob=https://github.com/trellis-tasks/trellis/blob/main
rm -rf "$src" bin/site
mkdir -p "$src"
cp -R docs/. "$src"
mv "$src/README.md" "$src/contents.md"
cp README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md "$src"
mv "$src/README.md" "$src/index.md"

# What stands at the root of the repository stands at that of the site.
for page in index CHANGELOG CONTRIBUTING SECURITY; do
	sed -e 's|](docs/README\.md|](contents.md|g' -e 's|](README\.md|](index.md|g' -e "s#](\(LICENSE\|changes/\|\.github/\)#]($blob/\1#g" -e 's|](docs/|](|g' "$src/$page.md" >"$src/page"
	mv "$src/page" "$src/$page.md"
done
for page in "$src"/contents.md "$src"/*/*.md; do
	case $page in "$src"/contents.md) up='' ;; *) up=../ ;; esac
	sed -e "s#]($up\.\./README\.md#](${up}index.md#g" -e "s#](${up}\.\./\(CHANGELOG\|CONTRIBUTING\|SECURITY\)\.md#](${up}\1.md#g" -e "s#](${up}\.\./#]($blob/#g" "$page" >"$src/page"
	if [ -n "$up" ]; then sed 's#](\.\./README\.md#](../contents.md#g' "$src/page" >"$page"; else mv "$src/page" "$page"; fi
done
rm -f "$src/page"

{ # the table of contents beside the pages
	for part in start guides reference internals; do
		echo "  - $part:"
		for page in "$src/$part"/*.md; do echo "    - ${page#"$src"/}"; done
	done
	printf '  - project:\n    - CHANGELOG.md\n    - CONTRIBUTING.md\n    - SECURITY.md\n'
} >"$src/nav"
sed -e 's|: bin/|: |' mkdocs.yml | cat - "$src/nav" >bin/mkdocs.yml
rm "$src/nav"
mkdocs build --quiet --config-file bin/mkdocs.yml
echo "site: built in bin/site; next: python3 -m http.server --directory bin/site"
