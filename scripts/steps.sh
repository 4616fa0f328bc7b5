# Runs steps and tells the cost of each. `.ci/run` and `scripts/nightly` source it.

steps=$(mktemp -d)
trap 'for job in "${jobs[@]}"; do kill -- "-$job" 2>/dev/null || true; done; rm -rf "$steps"' EXIT

# step NAME COMMAND...: runs a command or a function, and adds its times to the table. A failure ends the script, unless
# `continues` is set. Never call it in a condition: there a function does not stop at its first failure.
step() {
    local name=$1 TIMEFORMAT='%R %U %S' at code
    at=$(mktemp -d "$steps/$(date +%s).XXXX")
    printf '\n== %s\n' "$name"
    set +e
    { { time { (set -e; "${@:2}") 2>&3; }; } 3>&2 2>"$at/times"; } 2>&1 | tee "$at/log"
    code=${PIPESTATUS[0]}
    set -e
    awk -v name="$name" -v failed="$code" 'END {
        printf "%-58s %6.0f s %6.0f s of CPU%s\n", name, $1, $2 + $3, failed != 0 ? "  FAILED" : ""
    }' "$at/times" | tee "$at/row"
    [ -n "${continues:-}" ] || return "$code"
}

# beside NAME COMMAND...: runs a step beside those that follow. `together` waits for these steps, prints their output, and
# fails if one of them has failed. Each is a group of processes, which ends with the script.
set -m
jobs=()
beside() {
    step "$@" >"$steps/beside-${#jobs[@]}" 2>&1 &
    jobs+=($!)
}
together() {
    local at failed=0
    for at in "${!jobs[@]}"; do
        wait "${jobs[$at]}" || failed=1
        cat "$steps/beside-$at"
    done
    jobs=()
    return $failed
}

# Prints the cost of each step and every skipped check. Fails if a step has failed.
summary() {
    printf '\n== steps: elapsed time and CPU time\n'
    cat "$steps"/*/row
    printf '\n== skipped\n'
    grep -hoiE 'skipped: .*' "$steps"/*/log | sort -u || echo nothing
    ! grep -q 'FAILED$' "$steps"/*/row
}
