"""Errors that a user can mend: one clear message, no stack trace.

Stages and the config's check raise `UserError`; `rlvr.jobs.command_line` and Snakemake show its
message.
"""


class UserError(Exception):
    """Bad input. The message says what is wrong, where, and what to do."""
