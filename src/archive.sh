#!/bin/sh
# archive.sh OUT NAMES LINK…: a static library of the one object that LINK, a
# command without its -o, makes; names that match NAMES stay global in it.
set -eu

out=$1 names=$2
shift 2
"$@" -o "$out.o"
objcopy --wildcard --keep-global-symbol="$names" "$out.o"
rm -f "$out"
ar rcsD "$out" "$out.o"
rm "$out.o"
