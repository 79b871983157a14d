# `make figures` and `make test` each set up .venv by themselves, then do their job.
PYTHON ?= python3
CORES ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
RUN := . .venv/bin/activate &&
DOCUMENT_A := results/fig1_rlvr_overturns.pdf results/fig2_unhackable_reward.pdf results/fig3_cold_start.pdf

.PHONY: install figures extended report archive test benchmark gpu lint docs lock

figures: .venv/installed  ## everything that `rule all` names, one progress line per finished job
	$(RUN) snakemake --cores $(CORES) --quiet host reason

install: .venv/installed  ## set up .venv with the pinned packages, nothing else

extended: .venv/installed  ## more seeds and arms, and 10,000 iterations: an hour; over the results that are there
	$(RUN) snakemake --cores $(CORES) --quiet host reason --configfile extended.yaml

report: figures  ## results/report.html: figures, claims, settings and rule graph in one file that needs no network
	$(RUN) snakemake --report results/report.html --report-stylesheet workflow/report/style.css

archive: .venv/installed  ## rlvr-results.tar.gz: all results, to hand on
	$(RUN) snakemake --cores $(CORES) rlvr-results.tar.gz --quiet host reason

test: .venv/installed  ## unit tests and real runs of a tiny workflow
	$(RUN) pytest -n $(CORES)

benchmark: .venv/installed  ## the plain implementation and ours side by side: half an hour
	$(RUN) python benchmarks/run.py && python benchmarks/scaling.py

gpu: .venv/installed  ## on a machine with CUDA: its tests, then document A's whole run there (Snakemake tells its time)
	$(RUN) pytest tests/unit/test_cuda.py -rs && \
	snakemake --profile profiles/gpu --cores $(CORES) --quiet host reason --directory .cuda $(DOCUMENT_A)

lint: .venv/installed
	$(RUN) ruff check . && ruff format --check . && snakefmt --check Snakefile workflow && lint-imports

docs: .venv/installed  ## copy figures and claims of the finished results into docs/ and README.md
	$(RUN) python docs/update.py

lock: .venv/installed  ## resolve pyproject.toml into requirements.lock
	$(RUN) python -m pip install pip-tools && \
	CUSTOM_COMPILE_COMMAND="make lock" pip-compile --quiet --all-extras --strip-extras --allow-unsafe \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  --output-file requirements.lock pyproject.toml && \
	sed -i 's/^torch==\([0-9.]*\)+cpu$$/torch==\1/' requirements.lock  # any build of that release will do

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rlvr needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(RUN) python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(RUN) python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@
