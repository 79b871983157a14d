"""Errors that a user can mend: one clear message, no stack trace.

Stages raise `UserError`; `rlvr.command_line` and the Snakefile print its message alone.
"""


class UserError(Exception):
    """Bad input. The message says what is wrong, where, and what to do."""
