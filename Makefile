# `make` alone lists the targets. Settings: PYTHON= VENV= TORCH= SCENARIO= NAME= ARGS= (see `help`).

PYTHON ?= python3
VENV ?= .venv
TORCH ?=
SCENARIO ?= race_condition
ARGS ?=
NAME ?=

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help setup scenario test conformance lint schemas tox soak mutants bench bits matrix scale claims docs screenshots gpu docker slurm image clean

BIN := $(VENV)/bin

# pip refuses to install into a virtual environment where the user's configuration says `user = true`.
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# What a download comes to. Measured on the wheels for x86-64; torch's wheel and NVIDIA's packages were added up.
TORCH_CPU := about 200 MB
TORCH_LINUX := about 2.7 GB, more than 5 GB unpacked, since it comes with CUDA (`make TORCH=cpu` takes the build without, $(TORCH_CPU))
TORCH_OTHER := about 120 MB
REST := about 125 MB
UV := about 18 MB
DOCKER := about 65 MB
TOX := about 8 MB
MUTMUT := about 6 MB

# Prints the version and Python of a torch that the interpreter could import, then the folders that it and what it needs
# are in. It is looked up, not imported: that would take seconds.
define FIND_TORCH
import sys
sys.path[:] = [p for p in sys.path if p]
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from os.path import basename, dirname
spec = find_spec("torch")
if spec and spec.origin:
    try:
        number = version("torch")
    except PackageNotFoundError:
        number = "of unknown version"
    print(number)
    print("%d.%d" % sys.version_info[:2])
    folders = [dirname(dirname(spec.origin))]
    folders += [p for p in sys.path if basename(p) in ("site-packages", "dist-packages")]
    print("\n".join(dict.fromkeys(folders)))
endef

# Prints which packages of constraints.txt the environment lacks, or has in another version.
define FIND_MISSING
from importlib.metadata import PackageNotFoundError, version
from pip._vendor.packaging.requirements import Requirement
for line in open("constraints.txt"):
    line = line.partition("#")[0].strip()
    if not line:
        continue
    wanted = Requirement(line)
    if wanted.name in ("torch", "tensorflow-cpu", "uv", "tox", "mutmut", "expecttest") or (wanted.marker and not wanted.marker.evaluate()):
        continue
    try:
        there = wanted.specifier.contains(version(wanted.name), prereleases=True)
    except PackageNotFoundError:
        there = False
    if not there:
        print(wanted.name, end=" ")
endef

# Ends with 0 if torch is there and `breakrank` is the one of this tree (not of a copy, nor an installed one).
define READY
import os, sys
from importlib.util import find_spec
ours = find_spec("breakrank")
here = os.path.realpath("harness") + os.sep
sys.exit(not (find_spec("torch") and ours and ours.origin and os.path.realpath(ours.origin).startswith(here)))
endef
export FIND_TORCH FIND_MISSING READY

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14
	echo
	echo "PYTHON=python3.12  the interpreter to start from (python3); 3.10 or newer"
	echo "VENV=DIR           where everything is installed (.venv)"
	echo "TORCH=cpu|pip      install torch into VENV: the build without CUDA, or what pip finds. Not given: the torch"
	echo "                   that PYTHON or the active environment has is used as it is; only without one, as with pip"
	echo "SCENARIO=NAME      for 'make scenario' (race_condition)"
	echo "NAME=kill          for 'make conformance': a part, by name; a program is module:function"
	echo "ARGS='-k name -x'  more arguments for pytest"

setup: ## install what is needed into .venv; says first what it will download
	@stop() { printf '%s\n' "breakrank: $$*" >&2; exit 1; }
	py='$(BIN)/python'
	stamp='$(VENV)/.breakrank-ready'
	inputs=$$(cat pyproject.toml constraints.txt | cksum)
	borrowed='$(wildcard $(VENV)/lib/*/site-packages/breakrank-torch.pth)'
	if [ "$$(cat "$$stamp" 2>/dev/null)" = "$$inputs" ] && [ -z '$(TORCH)' -o -z "$$borrowed" ] && "$$py" -c "$$READY" 2>/dev/null; then
		echo "Nothing to download: $(VENV) is ready."
		exit 0
	fi

	# The interpreter and the environment.
	case '$(TORCH)' in ''|cpu|pip) ;; *) stop "TORCH=$(TORCH) is not known: cpu or pip, or leave it out" ;; esac
	if ! "$$py" -c '' 2>/dev/null; then
		if [ -n "$$(ls -A '$(VENV)' 2>/dev/null)" ] && [ ! -e '$(VENV)/pyvenv.cfg' ]; then
			stop "$(VENV) is there and no Python environment: remove it, or name another folder (make VENV=DIR)"
		fi
		command -v '$(PYTHON)' >/dev/null || stop "$(PYTHON) is not there: apt-get install python3 python3-venv, or make PYTHON=/path/to/python3"
		is=$$('$(PYTHON)' -c 'import sys; print("%d.%d" % sys.version_info[:2])') || stop "$(PYTHON) does not run: make PYTHON=/path/to/python3"
		'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 10))' || stop "$(PYTHON) is Python $$is, 3.10 or newer is needed: make PYTHON=python3.12"
		if '$(PYTHON)' -c 'import venv, ensurepip' 2>/dev/null; then
			maker=venv
		elif '$(PYTHON)' -c 'import virtualenv' 2>/dev/null; then
			maker=virtualenv
		else
			stop "$(PYTHON) cannot make virtual environments: apt-get install python$$is-venv"
		fi
		'$(PYTHON)' -m "$$maker" '$(VENV)' >/dev/null || true
		"$$py" -c '' 2>/dev/null || stop "$(VENV) is broken: rm -r $(VENV), then again"
	fi
	if ! "$$py" -m pip --version >/dev/null 2>&1; then
		# Left by an interrupted call, or made without pip.
		"$$py" -m ensurepip --upgrade >/dev/null 2>&1 || true
		"$$py" -m pip --version >/dev/null 2>&1 || stop "$(VENV) has no working pip: rm -r $(VENV), then again"
	fi
	is=$$("$$py" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	"$$py" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || stop "$(VENV) has Python $$is, 3.10 or newer is needed: rm -r $(VENV), then make PYTHON=python3.12"

	# torch: one that is there is used, never replaced. A .pth file makes another environment's visible in this one.
	version=$$(sed -n 's/^torch==//p' constraints.txt)
	packages=$$("$$py" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	torch=
	if [ -n '$(TORCH)' ]; then rm -f "$$packages/breakrank-torch.pth"; fi
	if [ ! -e '$(VENV)/.installing-torch' ]; then torch=$$("$$py" -c "$$FIND_TORCH"); fi
	if [ -z "$$torch" ] && [ -z '$(TORCH)' ]; then
		for other in '$(PYTHON)' "$${VIRTUAL_ENV:+$$VIRTUAL_ENV/bin/python}" "$${CONDA_PREFIX:+$$CONDA_PREFIX/bin/python}"; do
			found=$$("$${other:-false}" -c "$$FIND_TORCH" 2>/dev/null) || continue
			if [ -z "$$found" ] || [ "$$(sed -n 3p <<<"$$found")" -ef "$$packages" ]; then continue; fi
			if [ "$$(sed -n 2p <<<"$$found")" != "$$is" ]; then
				echo "The torch of $$other is for another Python than the $$is of $(VENV); to use it: rm -r $(VENV), then make PYTHON=$$other"
				continue
			fi
			sed 1,2d <<<"$$found" >"$$packages/breakrank-torch.pth"
			torch=$$found
			break
		done
	fi

	# What is to come.
	missing=$$("$$py" -c "$$FIND_MISSING")
	on_disk() {
		local folder
		for folder in $$("$$py" -m pip config list | sed -n "s/^[^=]*find-links='\(.*\)'$$/\1/p" | sed 's/\\n/ /g'); do
			if compgen -G "$${folder#file://}/torch-$$version*-cp$${is/./}-*.whl" >/dev/null; then return 0; fi
		done
		return 1
	}
	if [ -n "$$torch" ]; then
		echo "torch $$(sed -n 1p <<<"$$torch") is there and used as it is ($$(sed -n 3p <<<"$$torch"); tested: $$version)."
	elif [ '$(TORCH)' = cpu ]; then
		echo "Will download: torch $$version without CUDA ($(TORCH_CPU)) and uv, which finds it ($(UV))."
	elif on_disk; then
		echo "torch $$version comes from a folder that pip's configuration names; will download what it needs (about 10 MB)."
	elif [ "$$(uname -s)" = Linux ]; then
		echo "Will download: torch $$version as pip finds it ($(TORCH_LINUX))."
	else
		echo "Will download: torch $$version as pip finds it ($(TORCH_OTHER))."
	fi
	if [ -e '$(VENV)/.installing-rest' ]; then
		echo "An earlier set-up was interrupted: the other packages are installed anew ($(REST), less what pip has kept)."
	elif [ -n "$$missing" ]; then
		echo "Will download: $${missing% } and what they need ($(REST) if all is new)."
	elif [ -n "$$torch" ]; then
		echo "Nothing to download."
	fi

	# A marker says that an installation was interrupted. pip believes a half-installed package to be whole.
	install() {
		local mark="$(VENV)/.installing-$$1" again=()
		if [ -e "$$mark" ]; then again=("$$2"); fi
		touch "$$mark"
		shift 2
		"$$@" "$${again[@]}" || { rm -f "$$mark"; stop "the installation failed, the lines above say why; once that is cured (network, space on the disk), call make again: it goes on from here"; }
		rm -f "$$mark"
	}
	if [ -z "$$torch" ] && [ '$(TORCH)' = cpu ]; then
		install uv --ignore-installed "$$py" -m pip install -q -c constraints.txt uv
		install torch --reinstall '$(BIN)/uv' pip install --python "$$py" --torch-backend=cpu "torch==$$version"
	elif [ -z "$$torch" ]; then
		install torch --ignore-installed "$$py" -m pip install -c constraints.txt torch
	fi
	# setuptools goes first and the isolation is off, or pip would fetch another one to build with.
	install setuptools --ignore-installed "$$py" -m pip install -q -c constraints.txt setuptools
	install rest --ignore-installed "$$py" -m pip install -q -c constraints.txt --no-build-isolation -e '.[test,lint,docs]'

	"$$py" -c "$$READY" || stop "another breakrank hides the one of this tree, or torch is gone: rm -r $(VENV), and pip uninstall pytest-breakrank where torch is installed"
	"$$py" -W ignore -c 'import torch' >/dev/null || stop "torch does not import, the lines above say why; to have one of its own in $(VENV): make TORCH=cpu (or TORCH=pip)"
	# pip compiles what it copies, and this tree is used in its place; no rank writes byte-code.
	"$$py" -m compileall -q harness scenarios fixtures || true
	echo "$$inputs" >"$$stamp"

scenario: setup ## set up, then run one scenario: pytest --scenario=race_condition
	@'$(BIN)/python' -m pytest '--scenario=$(SCENARIO)' $(ARGS)

test: setup ## set up, then run the tests
	# Hundreds of processes import these; each would compile anew what was changed since the set-up.
	@'$(BIN)/python' -m compileall -q harness scenarios fixtures
	# More workers than CI has cores: now and then a test waits, for a deadline, a proof of a hang, or a container. The two
	# plugins come with other packages; no test uses them, and pytest imports them in each worker.
	'$(BIN)/python' -m pytest -q -rs -n 3 --dist worksteal -p no:faker -p no:anyio -m 'not soak' $(ARGS)

conformance: setup ## set up, then try one part, as in NAME=kill: a fault, witness, oracle, runner, hook, scenario or program
	@if [ -z '$(NAME)' ]; then echo "breakrank: name the part that is to be tried: make conformance NAME=kill" >&2; exit 1; fi
	'$(BIN)/python' -m pytest -q -rs '--part=$(NAME)' tests/conformance $(ARGS)

lint: setup ## set up, then ruff and mypy
	@'$(BIN)/python' -m ruff check harness scenarios fixtures tests docs
	@'$(BIN)/python' -m ruff format --check harness scenarios fixtures tests docs
	'$(BIN)/python' -m mypy harness

schemas: setup ## set up, then write what is generated from the vocabulary of events: schemas, docs/events.md, accessors
	@'$(BIN)/python' -m breakrank.schemas

tox: setup ## the tests on every Python from 3.10 to 3.13 that is here, each with its own torch
	@if ! '$(BIN)/python' -c 'import tox' 2>/dev/null; then
		echo "Will download: tox ($(TOX))."
		'$(BIN)/python' -m pip install -q -c constraints.txt tox
	fi
	echo "Each new environment downloads its own packages: $(REST), and torch as pip finds it, up to 2.7 GB."
	'$(BIN)/python' -m tox

soak: setup ## set up, then the tests that take long
	@'$(BIN)/python' -m pytest -m soak -rs tests/soak tests/conformance tests/plugin tests/e2e tests/checkup tests/hostile $(ARGS)

mutants: setup ## set up, then change the code that judges, a bit at a time, and see that tests notice; an hour
	@if ! '$(BIN)/python' -c 'import mutmut' 2>/dev/null; then
		echo "Will download: mutmut and what it needs ($(MUTMUT))."
		'$(BIN)/python' -m pip install -q -c constraints.txt mutmut
	fi
	'$(BIN)/python' tests/mutation/run.py $(ARGS)

bench: setup ## set up, then measure: launching, a scenario, what the agent costs; some minutes
	@if ! '$(BIN)/python' -c 'import expecttest' 2>/dev/null; then
		echo "Will download: expecttest (10 kB), which torch's own test case needs."
		'$(BIN)/python' -m pip install -q -c constraints.txt expecttest
	fi
	'$(BIN)/python' -m pytest -q -s tests/bench $(ARGS)

scale: setup ## set up, then play a thousand ranks on 128 deputies, and judge as many: docs/engines.md; ARGS='256 32 20' plays fewer
	@PYTHONPATH=tests '$(BIN)/python' tests/bench/scale.py $(ARGS)

claims: setup ## set up, then run what tries each claim about crashes: docs/claims.md; some minutes
	@'$(BIN)/python' tests/bench/claims.py $(ARGS)

bits: setup ## set up, then measure what comes of a wrong bit, by place and number: docs/bits.md; some minutes
	@'$(BIN)/python' tests/bench/bits.py $(ARGS)

matrix: setup ## set up, then measure who notices which mismatch of collectives: docs/collectives.md; some minutes
	@'$(BIN)/python' tests/bench/matrix.py $(ARGS)

docs: setup ## set up, then write what docs/ has of the code, and build the site: build/site/index.html
	@'$(BIN)/python' tests/support/pages.py
	NO_MKDOCS_2_WARNING=1 '$(BIN)/python' -m mkdocs build --quiet
	echo "The site: build/site/index.html"

screenshots: setup ## set up, then draw docs/timeline.png by a browser, and docs/verdict.svg: apt-get install chromium chromium-driver
	@'$(BIN)/python' tests/support/screenshots.py

gpu: ## what only a CUDA card can show, in 4 minutes; with VENV if it is there, else PYTHON; installs nothing
	@py='$(PYTHON)'
	if [ -x '$(BIN)/python' ]; then py='$(BIN)/python'; fi
	"$$py" tests/gpu/run.py

docker: ## install and start a Docker engine, if none answers and we are root; `make clean` stops it
	@stop() { printf '%s\n' "breakrank: $$*" >&2; exit 1; }
	answers() { docker version --format '{{.Server.Version}}' 2>/dev/null; }
	if there=$$(answers); then
		echo "A Docker engine answers: $$there."
		exit 0
	fi
	if [ "$$(id -u)" != 0 ]; then stop "no Docker engine answers, and only root can install and start one: sudo make docker"; fi
	if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
		command -v apt-get >/dev/null || stop "no Docker engine is installed, and there is no apt-get: install Docker, then again"
		echo "Will download: docker.io from Debian ($(DOCKER))."
		export DEBIAN_FRONTEND=noninteractive
		apt-get update -qq
		packages=(docker.io iptables)
		# In newer releases the command is a package of its own.
		if apt-cache show docker-cli >/dev/null 2>&1; then packages+=(docker-cli); fi
		apt-get install -y -qq --no-install-recommends "$${packages[@]}" >/dev/null
	fi
	mkdir -p .docker
	# What a machine may not allow is left out in turn: the firewall's rules, then the overlay.
	for options in '' '--iptables=false' '--iptables=false --storage-driver=vfs'; do
		rm -f .docker/pid
		setsid dockerd --pidfile "$$PWD/.docker/pid" $$options >.docker/log 2>&1 </dev/null &
		engine=$$!
		for ((tries = 0; tries < 300; tries++)); do
			if there=$$(answers); then
				echo "A Docker engine was started: $$there$${options:+ ($$options)}. make clean stops it."
				exit 0
			fi
			kill -0 "$$engine" 2>/dev/null || break
			sleep 0.2
		done
		kill "$$engine" 2>/dev/null || true
		wait "$$engine" 2>/dev/null || true
	done
	stop "a Docker engine cannot be started here: $$(grep -iE 'failed|error' .docker/log | tail -n 1)"

slurm: ## a Slurm cluster of two hosts on this machine, as root; ARGS=stop ends it, ARGS='run srun hostname' uses it
	@py='$(BIN)/python'
	if [ ! -x "$$py" ]; then py='$(PYTHON)'; fi
	"$$py" fixtures/slurm/cluster.py $(ARGS)

image: setup ## build images without a registry: one with torch, two with nothing but an old and a new Python (ARGS=NAME: that one)
	@'$(BIN)/python' fixtures/image/build.py $(ARGS)

clean: ## remove what tools left in the tree, and stop the engine of `make docker`; .venv and saved runs stay
	@if [ -e .docker/pid ]; then
		kill "$$(cat .docker/pid)" 2>/dev/null || true
	fi
	rm -rf .docker .mutants build dist .tox .mypy_cache .ruff_cache .pytest_cache *.egg-info
	for folder in harness scenarios fixtures tests; do
		if [ -d "$$folder" ]; then find "$$folder" -name __pycache__ -type d -prune -exec rm -rf {} +; fi
	done
