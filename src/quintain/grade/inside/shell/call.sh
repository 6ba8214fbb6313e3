# One call of an answer's function: its file is read with its output put aside, then the function runs.
exec 8>&1 1>/dev/null
source "./$1" || true
exec 1>&8 8>&-
if ! declare -F -- "$2" >/dev/null; then
  bash --noprofile --norc -n "./$1" 2>/dev/null || exit 2
  printf '%s: no function of this name\n' "$2" >&2
  exit 127
fi
shift
"$@"
