# What one does here by hand; .ci/run does the same.
.PHONY: test test-guest check build bench docs

# Installs what the tests need (if root, on Debian), then runs all of them.
test:
	tools/test.sh

# Linux's own drivers on our devices, in a guest (QEMU 11.1 is fetched once); TIER=long for more. Installs what it needs, too.
test-guest:
	tools/test-guest.sh

# Form and lints of Rust, Python and the shell scripts, the rules for dependencies, and the crates
# that can be published, without running anything. Installs what it needs, too.
check:
	tools/install-test-deps.sh check
	cargo fmt --all --check
	tools/lint.sh
	tools/deny.sh
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --locked
	cargo package --quiet --locked --allow-dirty --no-verify -p doorbell-hal -p doorbell-layout \
	    -p doorbell-packet -p doorbell-moderation

build:
	cargo build --workspace --release --locked

# Printed, never asserted: instructions by Callgrind, ratios within one process, rates of `doorbell live`.
bench:
	cargo bench --workspace --locked

# The tables and plots of the documents, made anew.
docs: build
	tools/docs.py docs/*.md
