"""GRPO with verifiable rewards on two-digit addition: training, tables, claims and figures."""

import gc
import sys

if sys.argv[:1] == ["-m"]:  # `python -m rlvr.STAGE` begins: what its imports make is there to stay,
    gc.disable()  # and looking for garbage among it takes a fifth of their time
