#!/usr/bin/env bash
# Tries what a release has, as its users get it: docs/internals/releasing.md says what. It takes minutes, so `make test` does without. What needs
# root, a root for rpm and a full disk, goes through sudo for others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.tools/release/bin:$PATH
source=$PWD work=$(mktemp -d) server=
trap 'if [ -n "$server" ]; then kill "$server"; fi; as_root umount "$work/small" 2>/dev/null || true; as_root rm -rf "$work"' EXIT

say() { printf '== %s\n' "$*"; }
die() { printf 'test-release: %s\n' "$*" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
# files are those below a root, and the folders that are the package's own; the others belong to the system.
files() { (cd "$1" && find . -not -path './var/lib/*' \( -not -type d -o -name 'trellis*' \) | sort); }
# demo runs the program of a root, with nothing of the user.
demo() { env -i HOME="$work/home" PATH="$1/usr/bin:/usr/bin:/bin" TERM=dumb "$1/usr/bin/trellis" demo >"$work/demo.log" 2>&1 || { cat "$work/demo.log"; die "the demo fails in $1"; }; }
mkdir "$work/home"

say 'workflows, scripts, configuration'
actionlint
shellcheck scripts/install.sh scripts/action.sh scripts/release.sh scripts/setup-release.sh scripts/site.sh scripts/test-release.sh
TRELLIS_RELEASE_KEY='' TRELLIS_TAP_TOKEN='' goreleaser check -q

say 'the site'
scripts/site.sh
scripts/check-site.py bin/site

say 'two builds of one commit, in two folders'
minisign -G -W -p "$work/public" -s "$work/secret" >/dev/null
TRELLIS_RELEASE_KEY=$(sed -n 2p "$work/public")
export TRELLIS_RELEASE_KEY TRELLIS_SECRET_KEY_FILE=$work/secret
git clone -q "$source" "$work/one"
git clone -q "$work/one" "$work/another/folder"
for folder in one another/folder; do
	ln -s "$source/.tools" "$work/$folder/.tools"
	echo .tools >>"$work/$folder/.git/info/exclude"
	(cd "$work/$folder" && scripts/release.sh) >"$work/build.log" 2>&1 || { tail -40 "$work/build.log"; die 'goreleaser failed'; }
done
dist=$work/one/dist
cmp "$dist/checksums.txt" "$work/another/folder/dist/checksums.txt"
cmp "$dist/checksums.txt.minisig" "$work/another/folder/dist/checksums.txt.minisig"
cp "$work/one/bin/release/install.sh" "$dist"
(cd "$dist" && sha256sum --quiet --check checksums.txt)
minisign -Vqm "$dist/checksums.txt" -p "$work/public"
version=$(sed -n 's/.*trellis_\(.*\)_linux_amd64\.deb$/\1/p' "$dist/checksums.txt")
for file in {linux,darwin}_{amd64,arm64}.tar.gz linux_{amd64,arm64}.{deb,rpm,apk} {linux,darwin}_{amd64,arm64}.cdx.json; do
	grep -q "  trellis_${version}_$file\$" "$dist/checksums.txt" || die "there is no $file"
done
machine=$(dpkg --print-architecture)
name=$dist/trellis_${version}_linux_$machine

say 'deb: installed, run, removed; lintian'
lintian --allow-root --fail-on error "$name.deb"
deb=$work/deb
mkdir -p "$deb/var/lib/dpkg/info" "$deb/var/lib/dpkg/updates"
printf 'Package: git\nStatus: install ok installed\nArchitecture: %s\nVersion: 1:2.39\nMaintainer: nobody\nDescription: as if\n\n' "$machine" >"$deb/var/lib/dpkg/status"
files "$deb" >"$work/before"
as_root dpkg --root="$deb" --log=/dev/null -i "$name.deb" >/dev/null
demo "$deb"

say 'the manual and completion of the package'
for page in "$deb"/usr/share/man/man1/*.gz; do
	LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings=w -l "$page" >"$work/page" 2>"$work/warnings"
	if [ -s "$work/warnings" ] || [ -n "$(awk 'length($0) > 80' "$work/page")" ]; then die "$page: $(cat "$work/warnings"; awk 'length($0) > 80' "$work/page")"; fi
done
export XDG_DATA_DIRS=$deb/usr/share
# shellcheck disable=SC2016
PATH=$deb/usr/bin:$PATH bash --norc -c '. /usr/share/bash-completion/bash_completion; __load_completion trellis || _comp_load trellis
	COMP_WORDS=(trellis obj) COMP_CWORD=1; _trellis; test "${COMPREPLY[0]}" = objective' || die 'bash does not complete'
# shellcheck disable=SC2016
zsh -f -c 'fpath=('"$deb"'/usr/share/zsh/vendor-completions $fpath); autoload -Uz compinit; compinit -u -d '"$work"'/dump; test "${_comps[trellis]}" = _trellis' || die 'zsh does not complete'
test "$(PATH=$deb/usr/bin:$PATH HOME=$work/home fish -c 'complete -C "trellis obj"' | cut -f1)" = objective || die 'fish does not complete'
unset XDG_DATA_DIRS

as_root dpkg --root="$deb" --log=/dev/null --purge trellis >/dev/null
files "$deb" | diff "$work/before" - || die 'dpkg left something'

say 'rpm: installed, verified, run, removed'
rpm=$work/rpm
mkdir -p "$rpm/var/lib"
as_root rpm --root "$rpm" --dbpath /var/lib/rpm --initdb
files "$rpm" >"$work/before"
as_root rpm --root "$rpm" --dbpath /var/lib/rpm --nodeps --nosignature -i "$name.rpm"
as_root rpm --root "$rpm" --dbpath /var/lib/rpm --nodeps -V trellis
demo "$rpm"
as_root rpm --root "$rpm" --dbpath /var/lib/rpm -e trellis
files "$rpm" | diff "$work/before" - || die 'rpm left something'

say 'apk: unpacked as apk does it, and run'
apk=$work/apk
mkdir "$apk"
tar -C "$apk" -xzf "$name.apk" 2>/dev/null
grep -q '^pkgname = trellis$' "$apk/.PKGINFO"
demo "$apk"

say 'install.sh, upgrade and rollback by a server on loopback'
web=$work/web folder=$work/web/download/v$version
mkdir -p "$folder" "$web/latest"
cp "$dist"/*.tar.gz "$dist"/checksums.txt* "$dist/install.sh" "$folder"
ln -s "../download/v$version" "$web/latest/download"
python3 -u -m http.server --bind 127.0.0.1 --directory "$web" 0 >"$work/server.log" 2>&1 &
server=$!
until grep -q port "$work/server.log"; do kill -0 "$server"; sleep 0.1; done
TRELLIS_RELEASES=http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\).*/\1/p' "$work/server.log")
export TRELLIS_RELEASES HOME=$work/home PREFIX=$work/prefix
curl -fsSL "$TRELLIS_RELEASES/latest/download/install.sh" | sh
curl -fsSL "$TRELLIS_RELEASES/latest/download/install.sh" | sed 's/command -v minisign/false/' | PREFIX=$work/second sh # by openssl
trellis=$PREFIX/bin/trellis
diff -r "$PREFIX" "$work/second"
"$trellis" demo >"$work/demo.log" 2>&1 || { cat "$work/demo.log"; die 'the demo fails'; }
cp "$trellis" "$work/first"
"$trellis" upgrade --check && die 'upgrade --check found nothing' # a snapshot has the version of its commit, which is older
printf '#!/bin/sh\necho trellis v0.0.0\n' >"$work/other" # a program that is not the release, to go back to
chmod +x "$work/other"
"$trellis" upgrade
cmp "$trellis" "$work/first"
cp "$work/other" "$PREFIX/bin/.trellis-previous"
"$trellis" upgrade --rollback
cmp "$trellis" "$work/other"
mv "$PREFIX/bin/.trellis-previous" "$trellis"

say 'a list that was changed, an archive that was cut'
sed -i 's/^0/1/; s/^1/2/' "$folder/checksums.txt"
code=0; "$trellis" upgrade || code=$?
test "$code" = 1 || die "a list that was changed: exit $code"
cp "$dist/checksums.txt" "$folder"
truncate -s -1000 "$folder/trellis_${version}_linux_$machine.tar.gz"
code=0; "$trellis" upgrade || code=$?
test "$code" = 1 || die "an archive that was cut: exit $code"
cp "$dist"/*.tar.gz "$folder"
cmp "$trellis" "$work/first"

say 'a full disk'
mkdir "$work/small"
as_root mount -t tmpfs -o "size=$(($(stat -c %s "$trellis") * 3 / 2)),mode=0777" tmpfs "$work/small"
cp "$trellis" "$work/small"
code=0; "$work/small/trellis" upgrade || code=$?
test "$code" = 1 || die "a full disk: exit $code"
cmp "$work/small/trellis" "$work/first"
"$work/small/trellis" --version >/dev/null
test "$(ls -A "$work/small")" = trellis || die "a full disk: something was left: $(ls -A "$work/small")"
if PREFIX=$work/small/prefix sh "$dist/install.sh"; then die 'install.sh wrote to a full disk'; fi

say 'all of it works'
