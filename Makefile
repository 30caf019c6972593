# What one does here by hand; .ci/run does the same.
.PHONY: test check build

# Installs what the tests need (if root, on Debian), then runs all of them.
test:
	tools/test.sh

# Form and lints, without running anything.
check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

build:
	cargo build --workspace --release --locked
