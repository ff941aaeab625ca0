#!/bin/sh
# build.sh LANGUAGE DIRECTORY: builds the peers written in LANGUAGE (rust, go) as DIRECTORY/LANGUAGE.
# Their versions are pinned; the first time they are fetched from their registries.
set -eu

cd "$(dirname "$0")/$1"
case $1 in
rust)
	cargo build --quiet --locked --release --target-dir "$2/target"
	ln -sf target/release/rust "$2/rust"
	;;
go)
	GOTOOLCHAIN=local GOFLAGS=-mod=readonly go build -o "$2/go" .
	;;
esac
