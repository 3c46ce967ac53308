# Sourced by the other scripts. After `ensure_venv`, the virtual environment `$venv` contains the packages of requirements.lock
# and this project, installed in place and compiled, and its programs come first on the PATH. After `ensure_venv run` it
# contains at least what a run needs, of compose/run.lock.
#
#   PYTHON           the interpreter for the environment; default: the first usable one of python3.11 .. python3.14, python3;
#                    one in /usr/bin comes before the PATH
#   TESTBENCH_VENV   its folder; default: .venv in the project. It belongs to the scripts: they empty and rebuild it when
#                    the lock, pyproject.toml, the interpreter or the folder of the project has changed.

# the folder itself, where scripts/ is a link to it
root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
venv=${TESTBENCH_VENV:-$root/.venv}
[[ $venv == /* ]] || venv=$PWD/$venv

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 4
}

ensure_venv() {
    unset PYTHONHOME PYTHONPATH # they could add packages that are not in the lock
    local python python_is stamp lock=requirements.lock
    find_python
    stamp=$(stamp_of "$lock")
    if [[ ${1:-} == run ]] && ! is_current "$stamp"; then
        lock=compose/run.lock
        stamp=$(stamp_of "$lock")
    fi
    if ! is_current "$stamp"; then
        mkdir -p -- "$venv"
        # one process at a time, by a lock on the directory itself; a process that waited finds the environment complete
        (
            flock 9
            is_current "$stamp" || build_venv "$stamp" "$lock" 9<&-
        ) 9<"$venv"
    fi
    compile_sources
    PATH=$venv/bin:$PATH
    # Bytecode lies beside the sources, for programs that are called by path too: Python may keep what is compiled on the way.
    unset PYTHONDONTWRITEBYTECODE
}

# Compile the modules and templates that have changed: pip compiles no project that is installed in place, and Python keeps nothing
# where PYTHONDONTWRITEBYTECODE is set. Without write access to the folder everything works, but starts later.
compile_sources() {
    "$venv/bin/python" -m compileall -qq -- "$root/coordinator" "$root/emunode" || true
    # Another interpreter or version of Jinja comes with another environment, which is newer than what is compiled.
    local templates=$root/coordinator/reports/templates
    local compiled=$templates/__pycache__/compiled
    if [[ ! -e $compiled || $venv/testbench-stamp -nt $compiled || -n $(find "$root/coordinator" -name '*.jinja' -newer "$compiled") ]]; then
        "$venv/bin/python" -c 'from coordinator.reports.pages import compile_templates as c; c()' && : >"$compiled" || true
    fi
}

stamp_of() {
    { printf '%s\n' "$root" "$venv" "$python_is"; cat -- "$root"/{pyproject.toml,"$1"}; } | sha256sum
}

is_current() {
    [[ -x $venv/bin/python && $(cat -- "$venv/testbench-stamp" 2>/dev/null) == "$1" ]]
}

# The stamp is emptied first and written last, so that an interrupted attempt is repeated.
build_venv() {
    local stamp=$1 lock=$2 pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input --retries 2)
    if [[ -n ${TESTBENCH_VENV:-} && ! -e $venv/testbench-stamp && -n $(ls -A -- "$venv") ]]; then
        die "TESTBENCH_VENV=$venv contains files that these scripts did not create; remove it, or name another folder"
    fi
    printf 'setting up %s with %s (once; about a minute)\n' "$venv" "$python" >&2
    : >"$venv/testbench-stamp"
    find "$venv" -mindepth 1 -maxdepth 1 ! -name testbench-stamp -exec rm -rf -- {} +
    "$python" -m venv "$venv"
    "${pip[@]}" install --require-hashes --requirement "$root/$lock" 2>"$venv/errors" || {
        ! grep -qE "NewConnectionError|ConnectTimeout|ProxyError|NameResolutionError" "$venv/errors" ||
            die "no package index answers: connect to a network, or name an index: PIP_INDEX_URL=https://.."
        cat -- "$venv/errors" >&2
        die "the packages of $lock do not install"
    }
    "${pip[@]}" install --no-deps --no-build-isolation --editable "$root"
    printf '%s\n' "$stamp" >"$venv/testbench-stamp"
}

# Set `python` to an interpreter that can build the environment, and `python_is` to its version.
find_python() {
    local names=(python3.11 python3.12 python3.13 python3.14) each candidates=() refused=""
    # Distributions compile theirs with profiles and in one static program; pyenv, by default, does neither, and is slower.
    for each in "${names[@]}"; do
        [[ ! -x /usr/bin/$each ]] || candidates+=("/usr/bin/$each")
    done
    candidates+=("${names[@]}" python3)
    [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
    for python in "${candidates[@]}"; do
        if python_is=$(probe_python "$python" 2>&1); then
            return
        fi
        refused+=$'\n'"  $python ${python_is%%$'\n'*}"
    done
    die "no usable Python: install 3.11 or later, or name one: PYTHON=/path/to/python$refused"
}

# Print the version of Python `$1`, or the reason why it cannot be used. It may be on the PATH and still not run (pyenv's shims).
probe_python() {
    command -v "$1" >/dev/null || {
        echo "not found"
        return 1
    }
    "$1" -c 'if True:
        import sys
        if sys.version_info < (3, 11):
            sys.exit("is Python %d.%d" % sys.version_info[:2])
        try:
            import ensurepip, venv
        except ImportError as error:
            sys.exit("lacks the module %s (Debian, Ubuntu: apt install python3-venv)" % error.name)
        print(sys.version, sys.base_prefix)'
}
