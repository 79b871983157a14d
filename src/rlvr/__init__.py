"""GRPO with verifiable rewards on two-digit addition: training, tables, claims and figures."""

import gc
import sys

if sys.argv[:1] == ["-m"] and any(
    argument.removeprefix("-m").startswith("rlvr.") for argument in sys.orig_argv
):
    # `python -m rlvr.STAGE` begins, and nothing but Python itself has been imported yet.
    from rlvr.isolation import isolate

    isolate()
    gc.disable()  # what imports make is there to stay, and looking for garbage slows them down
