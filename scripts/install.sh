#!/bin/sh
# Installs Trellis below ~/.local, with completion and manual:  curl -fsSL ADDRESS/install.sh | sh
# PREFIX=/usr/local installs elsewhere, TRELLIS_VERSION=v0.2.0 another release, TRELLIS_RELEASES=ADDRESS from a mirror.
set -eu

key='@KEY@'
releases=${TRELLIS_RELEASES:-https://github.com/trellis-tasks/trellis/releases}
prefix=${PREFIX:-$HOME/.local}

say() { echo "install.sh: $*" >&2; }
die() { say "$@"; exit 1; }

fetch() { # fetch PATH FILE
	if command -v curl >/dev/null; then
		curl -fsSL --retry 2 -o "$2" "$releases/$1"
	elif command -v wget >/dev/null; then
		wget -q -O "$2" "$releases/$1"
	else
		die 'there is neither curl nor wget; next: install curl'
	fi || die "$releases/$1 could not be downloaded, so nothing was installed"
}

sum() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

# signed says whether the key signed checksums.txt: by minisign, or by openssl from version 3 on. 2: neither is there.
signed() {
	if command -v minisign >/dev/null; then
		minisign -Vqm checksums.txt -P "$key" >/dev/null
	elif openssl version 2>/dev/null | grep -q '^OpenSSL \([3-9]\|[1-9][0-9]\)\.'; then
		# Ed25519 over the BLAKE2b of the file; behind two letters and the eight bytes of the key's number.
		sed -n 2p checksums.txt.minisig | openssl base64 -d -A >signature
		test "$(head -c 2 signature)" = ED || return 1
		test "$(head -c 10 signature | tail -c 8 | od -An -tx1)" = "$(echo "$key" | openssl base64 -d -A | head -c 10 | tail -c 8 | od -An -tx1)" || return 1
		tail -c 64 signature >raw
		{ printf '\060\052\060\005\006\003\053\145\160\003\041\000'; echo "$key" | openssl base64 -d -A | tail -c 32; } >key.der
		openssl dgst -blake2b512 -binary -out digest checksums.txt
		openssl pkeyutl -verify -rawin -pubin -keyform DER -inkey key.der -in digest -sigfile raw >/dev/null 2>&1
	else
		return 2
	fi
}

main() {
	system=$(uname -s | tr '[:upper:]' '[:lower:]')
	case $(uname -m) in
	x86_64 | amd64) machine=amd64 ;;
	aarch64 | arm64) machine=arm64 ;;
	*) die "there is no release for $(uname -m)" ;;
	esac
	case $system in linux | darwin) ;; *) die "there is no release for $system; on Windows use WSL2" ;; esac
	test "${#key}" = 56 || die 'this copy has no key: take the install.sh of a release'
	mkdir -p "$prefix/bin"
	prefix=$(cd "$prefix" && pwd)
	work=$(mktemp -d "$prefix/bin/.trellis-install.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM
	cd "$work"

	from=${TRELLIS_VERSION:+download/$TRELLIS_VERSION}
	fetch "${from:-latest/download}/checksums.txt" checksums.txt
	fetch "${from:-latest/download}/checksums.txt.minisig" checksums.txt.minisig
	code=0
	signed || code=$?
	case $code in
	0) how='signature and checksum' ;;
	2) how='checksum alone, since neither minisign nor OpenSSL 3 is here' ;;
	*) die "the key of the releases did not sign $releases/${from:-latest/download}/checksums.txt, so nothing was installed" ;;
	esac
	archive=$(sed -n "s/^[0-9a-f]*  \(trellis_[0-9][^ ]*_${system}_$machine\.tar\.gz\)\$/\1/p" checksums.txt | head -n 1)
	test -n "$archive" || die "there is no release for $system/$machine"
	version=${archive#trellis_} version=v${version%"_${system}_$machine.tar.gz"}
	test "${TRELLIS_VERSION:-$version}" = "$version" || die "the list of $TRELLIS_VERSION is that of $version"
	fetch "download/$version/$archive" "$archive"
	grep -qx "$(sum "$archive")  $archive" checksums.txt || die "$archive has not the checksum that was signed, so nothing was installed"
	mkdir files && tar -xzf "$archive" -C files
	cd files
	./trellis --version >/dev/null || die 'the program does not run on this machine, so nothing was installed'

	put() { mkdir -p "$prefix/share/$2" && cp "$1" "$prefix/share/$2/${3:-}"; } # put FILE FOLDER [NAME]
	for page in man/*.1; do put "$page" man/man1; done
	put completions/trellis.bash bash-completion/completions trellis
	put completions/_trellis zsh/site-functions
	put completions/trellis.fish fish/vendor_completions.d
	mv -f trellis "$prefix/bin/trellis"
	say "installed $prefix/bin/trellis $version, by $how"
	case :$PATH: in *":$prefix/bin:"*) ;; *) say "next: put $prefix/bin into PATH" ;; esac
	say 'next: trellis demo'
}

main
