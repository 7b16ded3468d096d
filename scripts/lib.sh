# Shared by the scripts: paths, finding cmake and a browser, building, messages.
# Sourced by POSIX sh (and by bash); the sourcing script sets `root` first. Has no side effects.
# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154  # variables for the sourcing scripts, and `root` set by them

tools=$root/.tools
# The Python packages of the tests, and the cmake that scripts/setup installs if the system has none; checks/venv.py makes both.
venv=$tools/venv
cmake_venv=$tools/cmake-venv
cmake_oldest=3.26

say() { echo "${0##*/}: $*" >&2; }

die() {
    say "$*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# watched TEXT COMMAND [ARGUMENT...]: runs a command that may take minutes. Instead of the command's own output, one line
# says for how long it has run, and how far it is: on a terminal the line is rewritten every second, elsewhere it is
# printed every 8 s. At the end, the command's output is printed if it has failed, otherwise only its warnings.
# The function is a subshell, so that its traps are its own.
watched() (
    text=$1
    shift
    log=$(mktemp) || exit 1
    # Started before the traps are set: until a new subshell has reset inherited traps, it does not end at a signal.
    tick "$text" "$log" &
    ticker=$!
    trap '[ -z "$ticker" ] || kill "$ticker" 2>/dev/null; rm -f "$log"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # Cargo draws its progress bar into the log, too, if told to. The width is that of the bar and the names after it.
    export CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=100 CARGO_TERM_PROGRESS_TERM_INTEGRATION=false
    export CARGO_TERM_COLOR=never
    status=0
    "$@" >"$log" 2>&1 || status=$?
    { kill "$ticker" && wait "$ticker"; } 2>/dev/null || ticker=''
    if [ -t 2 ]; then
        printf '\r\033[K' >&2
    fi
    if [ "$status" = 0 ]; then
        shown='^warning'
    else
        shown=.
    fi
    tr '\r' '\n' <"$log" | grep -v '^ *Building \[' | grep "$shown" >&2 || true
    if [ "$status" != 0 ]; then
        explain_failure "$log"
    fi
    exit "$status"
)

# explain_failure LOG: says how to help, if a command has failed because disk space, memory or the network is missing.
explain_failure() {
    if grep -q 'No space left on device' "$1"; then
        say "the disk is full: free some space (a build takes about 2 GiB), then run this again"
    elif grep -Eq 'signal: 9|memory allocation of|[Oo]ut of memory|Cannot allocate memory|^Killed' "$1"; then
        say "memory ran out: end other programs, or set CARGO_BUILD_JOBS=1 (a build then takes about 3 GiB), then run this again"
    elif grep -Eq 'failed to (download|fetch|get)|[Cc]ould(n.t| not) resolve|[Cc]ould(n.t| not) connect|Temporary failure' "$1"; then
        say "not everything could be fetched: connect to the network, or set HTTPS_PROXY, then run this again"
    fi
}

# tick TEXT LOG: prints the line that `watched` shows, until it is killed or the script ends.
tick() {
    began=$(date +%s)
    said=$began
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        now=$(date +%s)
        line="${0##*/}: $1, $((now - began)) s$(tail -c 2000 "$2" | how_far)"
        if [ -t 2 ]; then
            printf '\r\033[K%.79s' "$line" >&2
        elif [ $((now - said)) -ge 8 ]; then
            said=$now
            echo "$line" >&2
        fi
    done
}

# The progress of a command, taken from its output: the text of cargo's progress bar, or else the last line.
how_far() {
    tr '\r' '\n' | awk '
        sub(/^ *Building \[[^]]*\] /, "") { sub("/", " of "); sub(/hdf5-metno-src\(build\)/, "libhdf5"); bar = $0; next }
        /[^ ]/ { last = $0 }
        END { text = bar ? bar : last; gsub(/^ +| +$/, "", text); if (text) print ": " text }'
}

# is_good_cmake FILE: does FILE run, and is it new enough?
# VOLTILE_CMAKE_PROBE makes scripts/cmake fail, so that it does not call itself recursively if it is on the PATH.
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
    if is_good_cmake "$cmake_venv/bin/cmake"; then
        echo "$cmake_venv/bin/cmake"
    else
        path_cmake
    fi
}

# Prints the path of a browser that can test the page.
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

# Builds the release binary and prints its path.
build() {
    built=$(target_dir)/release/voltile
    [ -x "$built" ] || say "building voltile; the first time takes five to ten minutes on two cores"
    # In $root, because cargo searches for .cargo/config.toml from the working directory upwards.
    (cd "$root" && watched "building voltile" cargo build --release --locked) && echo "$built"
}

# apt_install PACKAGE...: installs packages, as root on Debian. If the lists cannot be updated, the old lists may be good
# enough. While another program that installs packages holds dpkg's lock, this waits for it.
apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 update -qq </dev/null || true
    apt-get -o DPkg::Lock::Timeout=300 install -qq -y --no-install-recommends "$@" </dev/null
}
