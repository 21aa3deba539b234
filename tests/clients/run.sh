#!/usr/bin/env bash
# Runs programs that others wrote on emulated cards, each in an environment of its own. docs/clients.md tells more.
set -euo pipefail

usage() {
    cat <<'END'
Usage: tests/clients/run.sh [--cards N]... [--fresh] [--verbose] NAME...
       tests/clients/run.sh --list

Trains a small model with the client NAME, unmodified, on 1 and on 2 emulated cards, and checks that the loss falls and
that each card's report shows recipes, memory and time.

  --cards N   on N cards only; may be given several times
  --fresh     make the environment anew, even where its requirements have not changed
  --verbose   show what the client prints as it runs, not only where it fails
  --list      names of the clients

Environments are kept in $HPUCLUSTER_CLIENTS (unset: hpucluster/clients in the user's cache folder) and made with
$PYTHON (unset: python3). A client that runs longer than $HPUCLUSTER_CLIENT_TIMEOUT seconds (unset: 900) has failed.
END
}

fail() {
    echo "run.sh: $1" >&2
    exit "${2:-1}"
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
keep=${HPUCLUSTER_CLIENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/hpucluster/clients}
python=${PYTHON:-python3}
limit=${HPUCLUSTER_CLIENT_TIMEOUT:-900}

clients() {
    local file
    for file in "$here"/*/requirements.txt; do
        basename "$(dirname "$file")"
    done
}

names=() cards=() fresh=no verbose=no
while [ $# -gt 0 ]; do
    case $1 in
        --cards) cards+=("${2:?run.sh: --cards needs a number}") && shift ;;
        --fresh) fresh=yes ;;
        --verbose) verbose=yes ;;
        --list) clients && exit ;;
        -h | --help) usage && exit ;;
        -*) fail "no such option: $1 (run.sh --help lists them)" 2 ;;
        *) names+=("$1") ;;
    esac
    shift
done
[ ${#names[@]} -gt 0 ] || { usage >&2; exit 2; }
[ ${#cards[@]} -gt 0 ] || cards=(1 2)
for count in "${cards[@]}"; do
    [[ $count =~ ^[1-8]$ ]] || fail "--cards $count is not a number of cards in a box (1 to 8)" 2
done
[[ $limit =~ ^[1-9][0-9]*$ ]] || fail "HPUCLUSTER_CLIENT_TIMEOUT=$limit is not a number of seconds" 2
for name in "${names[@]}"; do
    [[ -f $here/$name/requirements.txt && -x $here/$name/run ]] ||
        fail "no client named '$name'; there are: $(clients | tr '\n' ' ')" 2
done
command -v "$python" >/dev/null || fail "PYTHON=$python is not a command" 2

# What the caller's shell has set must not reach the client's environment.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT HLS_MODULE_ID ID
mkdir -p "$keep" || fail "cannot make $keep; HPUCLUSTER_CLIENTS names another folder"

# The constraints of the checkout, but for what the client pins itself.
constraints() {
    awk -F'[=<>~! ;[]' 'NR == FNR { pinned[tolower($1)]; next } !(tolower($1) in pinned)' "$1" "$checkout/constraints.txt"
}

build='from collectives.transport import native as collectives; from device.backend import native as bridge
bridge.ensure_built(); collectives.ensure_built()'

# prepare NAME: an environment that fits the requirements, with hpucluster from this checkout and the bridge it builds.
prepare() {
    local name=$1 environment=$keep/$1 wanted
    wanted=$({ "$python" -VV; cat "$here/$name/requirements.txt" "$checkout/constraints.txt" "$checkout/pyproject.toml"; } |
        sha256sum)
    if [ $fresh = yes ] || [ "$(cat "$environment/wanted" 2>/dev/null)" != "$wanted" ]; then
        echo "$name: installing into $environment"
        rm -rf "$environment"
        "$python" -m venv "$environment"
        constraints "$here/$name/requirements.txt" >"$environment/constraints.txt"
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -c "$environment/constraints.txt" \
            -r "$here/$name/requirements.txt" -e "$checkout" "$checkout/packaging/habana-torch-plugin" 'setuptools>=77' ||
            fail "$name: pip could not install its requirements (above)"
        echo "$checkout" >"$environment/checkout"
        echo "$wanted" >"$environment/wanted"
    elif [ "$(cat "$environment/checkout")" != "$checkout" ]; then
        "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
            -e "$checkout" || fail "$name: pip could not install hpucluster from $checkout (above)"
        echo "$checkout" >"$environment/checkout"
    fi
    # Built now, while nobody watches the client's time, and shown only where it fails.
    "$environment/bin/python" -I -c "$build" 2>"$environment/build.log" || {
        tail -n 30 "$environment/build.log" >&2
        fail "$name: the bridge to PyTorch could not be built (above)"
    }
}

free_port='import socket; free = socket.create_server(("127.0.0.1", 0)); print(free.getsockname()[1])'

# train NAME CARDS: run the client in an empty folder, and check what it left.
train() {
    local name=$1 count=$2 scratch port status=0
    scratch=$(mktemp -d)
    port=$("$keep/$name/bin/python" -c "$free_port")
    mkdir "$scratch/work" "$scratch/reports" "$scratch/cards"
    if (
        cd "$scratch/work"
        export PATH=$keep/$name/bin:$PATH CLIENT=$here/$name CARDS=$count PORT=$port LOSSES=$scratch/losses
        export HPUCLUSTER_CARD_RECORDS=$scratch/cards # other jobs of this machine hold other cards
        export HPUCLUSTER_REPORT=$scratch/reports HF_HUB_OFFLINE=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
        if [ $verbose = yes ]; then
            timeout "$limit" "$CLIENT/run" 2>&1 | tee "$scratch/log"
        else
            timeout "$limit" "$CLIENT/run" >"$scratch/log" 2>&1
        fi
    ); then
        "$keep/$name/bin/python" "$here/check.py" "$count" "$scratch/losses" "$scratch/reports" || status=$?
    else
        status=$?
        [ $status -ne 124 ] || echo "run.sh: $name on $count cards has not ended in $limit s" >&2
    fi
    if [ $status -ne 0 ]; then
        [ $verbose = yes ] || tail -n 60 "$scratch/log" >&2
        fail "$name failed on $count card(s), status $status; what it wrote is in $scratch"
    fi
    rm -rf "$scratch"
}

for name in "${names[@]}"; do
    exec 9>"$keep/$name.lock"
    flock 9 # another run.sh may be making the same environment
    start=$SECONDS
    prepare "$name"
    echo "$name: environment ready after $((SECONDS - start)) s"
    for count in "${cards[@]}"; do
        start=$SECONDS
        echo "$name on $count card(s):"
        train "$name" "$count" 9>&-
        echo "  passed in $((SECONDS - start)) s"
    done
    exec 9>&-
done
