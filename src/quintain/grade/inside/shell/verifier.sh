# Runs the trusted tests of one file: each function test_* in a subshell, each command of which must succeed. What they
# call of the answer is asked for on descriptor 3; results go to descriptor 9, which no test and no call has.
# Arguments: the tests' file, how long one answer may take, then FUNCTION names, --, PROGRAM names, --, tests in order.
quintain_file=$1 quintain_seconds=$2
shift 2
exec 9>&1 1>&2
quintain_stdin=$(stat -L -c %d:%i /dev/stdin 2>/dev/null)

quintain_ask() {
  local kind=$1 name=$2 input="" now code out err
  shift 2
  now=$(stat -L -c %d:%i /dev/stdin 2>/dev/null)
  if [[ -n $now && $now != "$quintain_stdin" && ! -c /dev/stdin ]]; then input=$(base64 -w0); fi
  printf '%s\0' "${quintain_test-}" "$kind" "$name" "$input" "$#" "$@" >&3 || exit 70
  IFS= read -r -t "$quintain_seconds" -u 3 code || exit 71
  IFS= read -r -t "$quintain_seconds" -u 3 out || exit 71
  IFS= read -r -t "$quintain_seconds" -u 3 err || exit 71
  if [[ -n $err ]]; then base64 -d <<<"$err" >&2; fi
  if [[ -n $out ]]; then base64 -d <<<"$out"; fi
  return "$code"
}

while [[ $1 != -- ]]; do
  eval "$1() { quintain_ask function $1 \"\$@\"; }"
  shift
done
shift
mkdir -p .quintain
while [[ $1 != -- ]]; do
  mkdir -p -- "$(dirname -- "$1")" ".quintain/$(dirname -- "$1")"
  {
    printf '#!/bin/bash --norc\nquintain_stdin=%q quintain_seconds=%q\n' "$quintain_stdin" "$quintain_seconds"
    declare -f quintain_ask
    printf 'quintain_ask program %q "$@"\n' "$1"
  } >"$1"
  chmod 755 -- "$1"
  cp -- "$1" ".quintain/$1"
  shift
done
shift
PATH=$PWD/.quintain:$PATH

printf 'load\n' >&9
source "./$quintain_file" 9>&- || { printf 'broken\n' >&9; exit 0; }
export quintain_test
for quintain_test in "$@"; do
  printf 'begin %s\n' "$quintain_test" >&9
  if ! declare -F -- "$quintain_test" >/dev/null; then printf 'absent %s\n' "$quintain_test" >&9; continue; fi
  quintain_said=$(mktemp)
  (
    exec 9>&-
    trap 'printf "%s" "$BASH_COMMAND" >"$quintain_said"' ERR
    set -eE
    "$quintain_test"
  )
  quintain_status=$?
  printf 'end %s %s %s\n' "$quintain_test" "$quintain_status" "$(base64 -w0 <"$quintain_said")" >&9
done
printf 'done\n' >&9
