# What one does here by hand; .ci/run does the same.
.PHONY: test test-guest check build bench docs

# Installs what the tests need (if root, on Debian), then runs all of them.
test:
	tools/test.sh

# Linux's own drivers on our devices, in a guest (QEMU 11.1 is fetched once); TIER=long for more.
test-guest:
	tools/test-guest.sh

# Form and lints, without running anything.
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

build:
	cargo build --workspace --release --locked

# Printed, never asserted: instructions by Callgrind, ratios within one process.
bench:
	cargo bench --workspace

# The tables and plots of the documents, made anew.
docs: build
	tools/docs.py docs/*.md
