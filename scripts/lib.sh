# Shared by the scripts: paths, finding cmake and a browser, messages.
# Sourced by POSIX sh (and by bash); the sourcing script sets `root` first. Has no side effects.
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154  # variables for the sourcing scripts, and `root` set by them

tools=$root/.tools
venv=$tools/venv
# Written when the venv is complete, one line per component (see scripts/setup).
stamp=$venv/stamp
cmake_oldest=3.26

say() { echo "${0##*/}: $*" >&2; }

have() { command -v "$1" >/dev/null 2>&1; }

# is_good_cmake FILE: does FILE run, and is it new enough?
# VOLTILE_CMAKE_PROBE makes our own wrapper fail, so that scripts/cmake on the PATH does not call itself recursively.
is_good_cmake() {
    [ -x "$1" ] && [ ! -d "$1" ] || return 1
    VOLTILE_CMAKE_PROBE=1 "$1" --version 2>/dev/null </dev/null | awk -v oldest="$cmake_oldest" '
        NR == 1 && /^cmake version / {
            split($3, is, "."); split(oldest, want, ".")
            good = is[1] + 0 > want[1] + 0 || (is[1] + 0 == want[1] + 0 && is[2] + 0 >= want[2] + 0)
        }
        END { exit !good }'
}

# Prints the first suitable cmake on the PATH.
path_cmake() {
    path_left=$PATH:
    while [ -n "$path_left" ]; do
        path_one=${path_left%%:*}
        path_left=${path_left#*:}
        if is_good_cmake "${path_one:-.}/cmake"; then
            echo "${path_one:-.}/cmake"
            return 0
        fi
    done
    return 1
}

# Prints the cmake that the build uses: the one that scripts/setup installed, else the first suitable one on the PATH.
find_cmake() {
    if [ -f "$stamp" ] && is_good_cmake "$venv/bin/cmake"; then
        echo "$venv/bin/cmake"
    else
        path_cmake
    fi
}

# Prints a browser that can test the page.
find_chromium() {
    for browser in ${VOLTILE_CHROMIUM:-} chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$browser" 2>/dev/null && return
    done
    return 1
}

# Prints cargo's target directory, wherever the environment or the user's configuration puts it.
target_dir() {
    (cd "$root" && cargo metadata --no-deps --format-version 1) | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}
