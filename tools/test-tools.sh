#!/bin/sh
# Tests of the scripts: the functions by which they download, what they skip, count and time. Part
# of `make test`. Needs no network.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/lib.sh
. tools/lib.sh
# These tests are no part of the run that they are in.
unset DOORBELL_TIMES DOORBELL_CI_CACHE
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# is NAME WANTED FOUND
is() {
    [ "$2" = "$3" ] || { printf 'test-tools: %s: not\n%s\nbut\n%s\n' "$1" "$2" "$3" >&2; exit 1; }
}

# Fails until it has been called $1 times, each time in its own words.
# shellcheck disable=SC2317 # called by retry
nth() {
    echo x >>"$work/calls"
    echo "call $(wc -l <"$work/calls")"
    [ "$(wc -l <"$work/calls")" -ge "$1" ]
}
RETRY_PAUSES='0 0 0'
code=0
retry what nth 3 2>"$work/said" || code=$?
is "the third call's success" 0 $code
is "each failure in its own words, with the pause" "what failed; \`nth 3\` said:
    call 1
what: again in 0 s
what failed; \`nth 3\` said:
    call 2
what: again in 0 s" "$(cat "$work/said")"
rm "$work/calls"
code=0
retry what nth 9 2>/dev/null || code=$?
is "calls, when all fail" 4 "$(wc -l <"$work/calls")"
is "code, when all fail" 1 $code
code=0
step name sh -c 'exit 7' 2>"$work/said" || code=$?
is "a step's code" 7 $code
is "a step's end" "== name: 0 s, failed (7)" "$(tail -n 1 "$work/said")"

# The mirror of an apt whose sources are $1, which has fetched nothing.
mirror_of() {
    mkdir -p "$work/apt/lists/partial" "$work/etc/apt.conf.d"
    echo "$1" >"$work/etc/sources.list"
    cat >"$work/apt.conf" <<END
Dir::Etc "$work/etc";
Dir::Etc::sourcelist "$work/etc/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/apt/lists";
END
    APT_CONFIG=$work/apt.conf sh -eu -c '. tools/guest/apt.sh; mirror' tools/guest/x
}
# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
one=http://one.example/debian
is "Debian's mirror among others" $one "$(mirror_of "deb http://vendor.example/x $suite stable
deb http://security.example/debian-security $suite-security main
deb $one $suite main")"
is "a mirror by a suite's role" $one "$(mirror_of "deb $one/ stable main")"
is "no mirror" '' "$(mirror_of 'deb http://vendor.example/x other main')"
other=http://other.example
is "DEBIAN_MIRROR" $other "$(DEBIAN_MIRROR=$other mirror_of "deb $one stable main")"

# A mirror whose suite does not agree with itself: apt, played, accepts it by its role alone, and
# says that the suite has the codename $1.
mkdir -p "$work/bin"
cat >"$work/bin/apt-get" <<'END'
#!/bin/sh
case $* in
    *indextargets*) echo "$CODENAME"; echo trixie-backports ;;
    *update*) grep -q " stable main$" "${APT_CONFIG%/*}/sources.list" ;;
esac
END
chmod +x "$work/bin/apt-get"
sources_of() {
    mkdir -p "$work/cache/apt/etc"
    # shellcheck disable=SC2016 # for the inner shell
    CODENAME=$1 PATH=$work/bin:$PATH sh -eu -c '
        . tools/guest/apt.sh
        mirror=m machine= dir=$1 apt=$1/apt
        suite trixie amd64,arm64
        suite trixie-backports amd64
        update amd64 arm64' tools/guest/x "$work/cache" 2>/dev/null || return
    sed 's/.* m //' "$work/cache/apt/etc/sources.list"
    rm -r "$work/cache"
}
is "a suite by its role" "stable main
trixie-backports main" "$(sources_of trixie)"
code=0
(sources_of forky) || code=$?
is "a role that is another suite's" 3 $code

# A machine whose apt verifies nothing: this one does.
trusted() {
    mkdir -p "$work/cache/apt/etc"
    # shellcheck disable=SC2016 # for the inner shell
    CODENAME=trixie PATH=$work/bin:$PATH sh -eu -c '
        . tools/guest/apt.sh
        mirror=m machine="Acquire::AllowInsecureRepositories \"true\";
Acquire::AllowDowngradeToInsecureRepositories \"true\";
Acquire::AllowWeakRepositories \"true\";" dir=$1 apt=$1/apt
        suite trixie amd64
        update amd64
        apt-config dump Acquire' tools/guest/x "$work/cache" 2>/dev/null |
        sed -n 's/^Acquire::Allow\(.*\)Repositories/\1/p' | sort
    rm -r "$work/cache"
}
is "a machine that verifies nothing" 'DowngradeToInsecure "false";
Insecure "false";
Weak "false";' "$(trusted)"

# A mirror that has no packages for one of its lists: the script begins anew.
cat >"$work/bin/apt-get" <<'END'
#!/bin/sh
case $* in
    *indextargets*) echo trixie ;;
    *install* | *download*) grep -q "$POOL main$" "${APT_CONFIG%/*}/sources.list" ;;
esac
END
mkdir -p "$work/tools/guest"
ln -s "$PWD/tools/lib.sh" "$work/tools/"
ln -s "$PWD/tools/guest/apt.sh" "$work/tools/guest/"
cat >"$work/tools/guest/x" <<'END'
set -eu
. "$(dirname "$0")/apt.sh"
mirror=m machine= apt=$1/apt archives=0
mkdir -p "$apt/etc"
: >"$apt/suites"
suite trixie amd64
suite trixie-backports amd64
update amd64
unpack() { sed "s/.* m //" "$apt/etc/sources.list"; }
"$2" "$1/out" a package
END
for how in get only; do
    fetched() {
        POOL=$1 RETRY_PAUSES=' ' PATH=$work/bin:$PATH \
            sh "$work/tools/guest/x" "$work/a b" $how 2>/dev/null
    }
    is "$how: packages" "trixie main
trixie-backports main" "$(fetched trixie)"
    is "$how: packages of the release before" "stable main
trixie-backports main" "$(fetched stable)"
    is "$how: no packages" '' "$(fetched none || :)"
done

# A tree with crates that depend on each other, and fuzz targets of two of them.
tree=$work/tree
mkdir -p "$tree/tools" "$tree/docs" "$tree/fuzz/fuzz_targets" "$tree/fuzz/seeds/one"
for tool in fuzz.py unchanged.py; do
    cp "tools/$tool" "$tree/tools/"
done
crate() {
    mkdir -p "$tree/crates/$1/src"
    printf '[package]\nname = "doorbell-%s"\nversion = "0.0.0"\nedition = "2024"\n%s\n' "$1" "$2" \
        >"$tree/crates/$1/Cargo.toml"
    echo "${3:-}" >"$tree/crates/$1/src/lib.rs"
}
crate base ''
crate tests ''
# shellcheck disable=SC1078,SC1079 # a manifest
crate user '[dependencies]
doorbell-base = { path = "../base" }
[dev-dependencies]
doorbell-tests = { path = "../tests" }' 'const TEXT: &str = include_str!("../../../docs/read.md");'
crate other ''
printf '[workspace]\nmembers = ["crates/*"]\nresolver = "3"\n' >"$tree/Cargo.toml"
echo lock >"$tree/Cargo.lock"
echo text >"$tree/docs/read.md"
echo text >"$tree/docs/unread.md"
git -C "$tree" init --quiet
git -C "$tree" add --all

# What has run since the last call: `ran`, or what was said.
# shellcheck disable=SC2016 # for the inner shell
now() {
    (
        cd "$tree"
        code=0
        DOORBELL_CI_CACHE=$work/kept tools/unchanged.py name --crate doorbell-user --word 1 -- \
            sh -c 'echo ran; eval "${DURING:-}"' 2>&1 || code=$?
        [ "$code" = 0 ] || echo "code $code"
    )
}
same="name: skipped, unchanged since it passed"
is "sources that never passed" ran "$(now)"
is "sources that have passed" "$same" "$(now)"
for file in crates/user/src/lib.rs crates/base/src/lib.rs crates/tests/src/lib.rs \
    crates/base/src/new.rs crates/base/data.txt crates/other/Cargo.toml Cargo.lock Cargo.toml \
    .cargo/config.toml docs/read.md; do
    mkdir -p "$(dirname "$tree/$file")"
    echo "# more" >>"$tree/$file"
    case $file in *.rs) echo "// more" >"$tree/$file" ;; esac
    [ "$file" != crates/user/src/lib.rs ] ||
        echo 'const TEXT: &str = include_str!("../../../docs/read.md");' >>"$tree/$file"
    is "a change of $file" ran "$(now)"
    is "the same after a change of $file" "$same" "$(now)"
done
rm "$tree/crates/base/src/new.rs"
is "a file less" ran "$(now)"
for file in crates/other/src/lib.rs docs/unread.md README.md tools/x.sh; do
    echo "// more" >>"$tree/$file"
    is "a change of $file, which it is not built from" "$same" "$(now)"
done
is "other flags of the compiler" ran "$(RUSTFLAGS=--cfg=x now)"
echo "// fails" >>"$tree/crates/base/src/lib.rs"
is "a run that fails" "ran
code 3" "$(DURING='exit 3' now)"
is "the same after a run that failed" ran "$(now)"
is "the same after it passed" "$same" "$(now)"
echo "// changes" >>"$tree/crates/base/src/lib.rs"
is "a source that changes meanwhile" ran "$(DURING='echo // >>crates/base/src/lib.rs' now)"
sed -i '$d' "$tree/crates/base/src/lib.rs"
is "the source as it was before" ran "$(now)"
echo "broken" >>"$tree/crates/other/Cargo.toml"
is "a tree that cannot be told" ran "$(now | tail -n 1)"
is "the same tree that cannot be told" ran "$(now | tail -n 1)"
crate other ''
is "nothing kept" ran "$(cd "$tree" && tools/unchanged.py name --crate doorbell-user -- echo ran)"

# Programs of targets are made by cargo, played, and fail while there is a file `fails`.
cat >"$tree/fuzz/Cargo.toml" <<'END'
[package]
name = "doorbell-fuzz"
[package.metadata.fuzz]
one = { runs = 1 }
two = { runs = 1 }
[dependencies]
doorbell-user = { path = "../crates/user" }
doorbell-other = { path = "../crates/other" }
[[bin]]
name = "one"
path = "fuzz_targets/one.rs"
[[bin]]
name = "two"
path = "fuzz_targets/two.rs"
END
echo 'doorbell_user::f();' >"$tree/fuzz/fuzz_targets/one.rs"
echo 'doorbell_other::f();' >"$tree/fuzz/fuzz_targets/two.rs"
printf '/target\n/corpus\n/artifacts\n' >"$tree/fuzz/.gitignore"
mkdir "$work/played"
cat >"$work/played/cargo" <<END
#!/bin/sh
[ "\$1" != metadata ] || exec $(command -v cargo) "\$@"
case "\$*" in *version*) echo 1; exit ;; esac
echo "\$*" >>"$work/built"
mkdir -p fuzz/target/host/release
for name in one two; do
    printf '#!/bin/sh\n[ ! -e "$work/fails" ]\n' >fuzz/target/host/release/\$name
    chmod +x fuzz/target/host/release/\$name
done
END
printf '#!/bin/sh\necho "host: host"\n' >"$work/played/rustc"
chmod +x "$work/played"/*
# The targets that have run, or what was said.
fuzzed() {
    : >"$work/built"
    code=0
    DOORBELL_CI_CACHE=$work/kept PATH=$work/played:$PATH "$tree/tools/fuzz.py" "$@" \
        >"$work/said" || code=$?
    sed -n 's/^\(one\|two\)  *-.*/\1/p; /^skipped/p' "$work/said" | sort
    sed 's/^/built: /' "$work/built"
    [ "$code" = 0 ] || echo "code $code"
}
all="one
two
built: +nightly fuzz build --no-trace-compares --sanitizer=none"
is "targets that never passed" "$all" "$(fuzzed)"
is "targets that have passed" "skipped, unchanged since they passed: one, two" "$(fuzzed)"
# New inputs are found by the comparisons that they pass.
is "targets for a time" "${all% --no-trace-compares --sanitizer=none}" "$(fuzzed --seconds 1)"
echo "// more" >>"$tree/crates/base/src/lib.rs"
touch "$work/fails"
one="one
skipped, unchanged since they passed: two
built: +nightly fuzz build --no-trace-compares --sanitizer=none one"
is "a change below one target, which fails" "$one
code 1" "$(fuzzed)"
rm "$work/fails"
is "the same after it failed" "$one" "$(fuzzed)"
echo "seed" >>"$tree/fuzz/seeds/one/new"
is "a new seed of one target" "$one" "$(fuzzed)"
echo "// more" >>"$tree/fuzz/fuzz_targets/two.rs"
is "a change of the other target" "skipped, unchanged since they passed: one
two
built: +nightly fuzz build --no-trace-compares --sanitizer=none two" "$(fuzzed)"
echo "# more" >>"$tree/fuzz/Cargo.toml"
is "a change of the manifest of all" "$all" "$(fuzzed)"
echo "// more" >>"$tree/fuzz/build.rs"
is "a new source of all" "$all" "$(fuzzed)"

# Lines of each kind. `// P` is product, `// T` is of tests.
mkdir -p "$work/lines/crates/a/src/inner" "$work/lines/crates/a/src/checks" \
    "$work/lines/crates/a/src/block" "$work/lines/crates/a/tests" "$work/lines/crates/testkit/src"
cat >"$work/lines/crates/a/src/lib.rs" <<'END'
//! A crate // P
mod inner; // P
#[cfg(test)] // T
mod checks; // T
#[cfg(any(test, fuzzing))] // T
pub(crate) mod fuzzing; // T
/// With a doc comment. // T
#[cfg(all(test, not(loom)))] // T
#[path = "named.rs"] // T
mod other; // T
#[cfg(not(miri))] // P
use std::cell::{Cell, RefCell}; // P
#[cfg(miri)] // T
use std::{ // T
    io, // T
}; // T
const OPEN: &str = "#[cfg(test)] mod x {"; // P
const RAW: &str = r#"#[cfg(test)] " mod y { "#; // P
/* #[cfg(test)] // P
   mod z; */ // P
enum Clock<'a> { // P
    Since(&'a str, char), // P
    /// A variant. // T
    #[cfg(kani)] // T
    Driven(Cell<u8>), // T
    Never, // P
} // P
struct Both { // P
    #[cfg(test)] // T
    map: HashMap<u8, Vec<u8>>, // T
    last: u8, // P
} // P
impl Both { // P
    #[cfg(fuzzing)] // T
    #[allow(dead_code)] // T
    pub(crate) fn of<A, B>(a: A) -> [u8; 2] // T
    where A: Into<u8>, B: Sized, // T
    { // T
        [b'{', b'\''] // T
    } // T
    fn now(&self) -> u8 { // P
        match self { // P
            #[cfg(test)] // T
            Driven(now) => { // T
                now.get() // T
            } // T
            #[cfg(loom)] // T
            Other => 1, // T
            _ => 2, // P
        } // P
    } // P
} // P
#[cfg(any(unix, test))] // P
const fn kept() {} // P
mod block { // P
    mod deep; // P
    #[cfg(test)] // T
    mod tests { // T
        mod file; // T
    } // T
} // P
END
kind() { yes "$1" | head -n "$2" >"$work/lines/crates/a/$3"; }
kind '// P' 3 src/inner.rs
printf '#[cfg(test)] // T\nmod tests; // T\n' >>"$work/lines/crates/a/src/inner.rs"
kind '// T' 5 src/inner/tests.rs
printf 'mod more; // T\n' >"$work/lines/crates/a/src/checks/mod.rs"
kind '// T' 6 src/checks/more.rs
kind '// T' 7 src/fuzzing.rs
kind '// T' 8 src/named.rs
kind '// P' 9 src/block/deep.rs
mkdir "$work/lines/crates/a/src/block/tests"
kind '// T' 4 src/block/tests/file.rs
kind '// T' 2 tests/it.rs
echo '// T' >"$work/lines/crates/testkit/src/lib.rs"
git -C "$work/lines" init --quiet
git -C "$work/lines" add --all
product=$(find "$work/lines/crates/a" -name '*.rs' -exec cat {} + | grep -c '// P$')
tests=$(find "$work/lines/crates/a" -name '*.rs' -exec cat {} + | grep -c '// T$')
is "lines of product and tests" "crate         product    tests
$(printf '%-12s %8s %8s\n%-12s %8s %8s' a "$product" "$tests" sum "$product" "$tests")
testkit             0        1
$product" "$(tools/size.sh "$work/lines")"

# A test program of libtest, played, another of its own harness, and what they leave.
mkdir -p "$work/times" "$work/deps"
export DOORBELL_TIMES="$work/times"
touch "$work/times/began"
cat >"$work/deps/some-0123456789abcdef" <<'END'
#!/bin/sh
# report-time
echo "$* ${RUSTC_BOOTSTRAP:-none}"
echo "test fast ... ok <0.001s>"
for part in "test slow::of_all - should panic ... " FAILED " <12" ".300s>" "
"; do
    printf "%s" "$part"
    sleep 0.1
done
echo "test left ... ignored"
echo "a line <1.000s>"
exit 101
END
cat >"$work/deps/own" <<'END'
#!/bin/sh
echo "own $* ${RUSTC_BOOTSTRAP:-none}"
kill -9 $$
END
chmod +x "$work/deps"/*
timed() {
    code=0
    # The shell tells what killed it.
    CARGO_PKG_NAME=p tools/times.py run "$@" || code=$?
    echo "code $code"
} 2>/dev/null
is "a test program's output and code" "name -Zunstable-options --report-time 1
test fast ... ok
test slow::of_all - should panic ... FAILED
test left ... ignored
a line <1.000s>
code 101" "$(timed "$work/deps/some-0123456789abcdef" name)"
is "a program of another harness, killed" "own name none
code 137" "$(timed "$work/deps/own" name)"
step "a step" true 2>/dev/null
step "a bad step" false 2>/dev/null || true
shown=$(CARGO_TARGET_DIR=$work tools/times.py show)
is "the slowest test" "     12.3  p some slow::of_all" \
    "$(echo "$shown" | sed -n '/the slowest tests/{n;p}')"
is "steps, programs and tests" "a bad step, failed (1)
a step
p own
p some
p some fast
p some slow::of_all" "$(echo "$shown" | sed -n 's/^[ 0-9.]*[0-9]  //p' | sort)"
unset DOORBELL_TIMES

# A part of the program that grew is named; the rest is quiet.
is "instructions over the record" "\
s: 105 instructions a packet, recorded are 100; of the difference:
          +6  grown" "$(cd tools && python3 -c '
import bench
had = {"s": {"grown": 60, "other": 40}, "t": {"grown": 100}}
now = {"s": {"grown": 66, "other": 39}, "t": {"grown": 102.9}}
print("\n".join(bench.check(now, had)))')"
# A module of a symbol, and where the time of others goes.
is "parts" "devices::mlx5::transmit bus::pcie::link copies allocator others' code" \
    "$(cd tools && python3 -c '
import bench
print(*map(bench.part, [
    "doorbell_devices::mlx5::transmit::Execution<P>::run",
    "<doorbell_bus::pcie::link::Pcie<S> as doorbell_hal::device::Port>::write",
    "__memcpy_avx_unaligned_erms", "_int_malloc", "core::slice::copy_from_slice_impl"]))')"

echo "tools: retry, step, mirror, suites, what is skipped, counted and timed hold" >&2
