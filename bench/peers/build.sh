#!/bin/sh
# build.sh PEER DIRECTORY: builds the peers of the folder PEER as DIRECTORY/PEER.
# Their versions are pinned; the first time they are fetched from their registries.
set -eu

mkdir -p "$2"
cd "$(dirname "$0")/$1"
case $1 in
rust)
	cargo build --quiet --locked --release --target-dir "$2/target"
	ln -sf target/release/rust "$2/rust"
	;;
go)
	GOTOOLCHAIN=local GOFLAGS=-mod=readonly go build -o "$2/go" .
	;;
go-zero) # nothing is built: its scripts are read where they are
	ln -sfn "$(GOTOOLCHAIN=local go mod download -json github.com/zeromicro/go-zero |
		sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')" "$2/go-zero"
	;;
redis-cell) # beside it, what a program of Rust that is linked to shared parts needs
	cargo build --quiet --locked --release --target-dir "$2/target-redis-cell"
	ln -sf "$2"/target-redis-cell/release/deps/libredis_cell-*.so "$2/redis-cell"
	ln -sfn "$(rustc --print target-libdir)" "$2/redis-cell-needs"
	;;
failsafe-go)
	GOTOOLCHAIN=local GOFLAGS=-mod=readonly go build -o "$2/failsafe-go" .
	;;
java) # needs javac and Maven
	mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
		-DoutputDirectory="$2/java/lib"
	javac -Xlint:all -cp "$2/java/lib/*" -d "$2/java" src/Gate.java
	;;
esac
