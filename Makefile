# Every verb installs what it needs first (devenv/bootstrap); on a machine that has it all, that is instant.
SUITE ?= trixie
SCENE ?= moves
VM ?= namespace
STAGES ?=
BENCH ?=
SESSIONS ?= 100
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo gap soak test check contract bench clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

demo: ## sessions of migrating VMs on real OVN, with controls that die (SUITE=bookworm; VM=qemu; SCENE=crash: a node dies)
	@devenv/bootstrap
	@devenv/sandbox demo --suite $(SUITE) --scene $(SCENE) --vm $(VM)

gap: ## how long a gateway's move interrupts traffic, beside plain OVN's; two minutes (MOVES=6 SESSIONS=100)
	@devenv/bootstrap
	@devenv/sandbox demo --suite $(SUITE) --scene gap -- --moves $(or $(MOVES),6) --sessions $(SESSIONS)

soak: ## a VM and its gateway go round and round while things break; half an hour (MOVES=200 SESSIONS=100)
	@devenv/bootstrap
	@devenv/sandbox demo --suite $(SUITE) --scene soak -- --moves $(or $(MOVES),200) --sessions $(SESSIONS)

test: ## every check and every test, the sandbox ones too (STAGES="core unit" runs only those)
	@devenv/bootstrap
	@tools/test $(STAGES)

check: ## lint, format, types, imports, dependencies, spelling, house rules; seconds
	@devenv/bootstrap check
	@tools/check

contract: ## write api/ and schemas/ anew from the code
	@devenv/bootstrap check
	@.venv/bin/ovnmig contract

bench: ## rates beside conntrack, conntrackd and a C program, minutes (BENCH="--quick": one minute)
	@devenv/bootstrap
	@.venv/bin/python -m tests.bench $(BENCH)

clean: ## remove the virtual environment, caches and reports of this folder, and the sandbox
	@if [ -x devenv/sandbox ] && [ -d .venv ]; then devenv/sandbox clean; fi
	@rm -rf .venv .cache out dist
