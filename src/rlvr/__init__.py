"""GRPO with verifiable rewards on two-digit addition: training, tables, claims and figures.

The way of the data is the way through the rooms: task -> policy -> methods -> results -> claims and
figures. A module imports from its own room and those before it; `config` (what may be set) and
`jobs` (what joins a job to Snakemake and the disk) stand beside them and import none of them.
`elementary` has exp and log for all of them.
`make lint` checks it.
"""

import gc
import sys

if sys.argv[:1] == ["-m"] and any(
    argument.removeprefix("-m").startswith("rlvr.") for argument in sys.orig_argv
):
    # `python -m rlvr.ROOM.STAGE` begins, and nothing but Python itself has been imported yet.
    from rlvr.jobs.isolation import isolate

    isolate()
    gc.disable()  # what imports make is there to stay, and looking for garbage slows them down
