"""What is asked and what is right: additions as tokens, who teaches them, who checks them.

`addition` has prompts and their solutions, `teachers` what SFT is shown, `annotators` who chooses
between completions, `rewards/` a module per rule, found by its name, `splits` which prompts are
held out, `streams` all random numbers. It may import `config` and `jobs`.
"""
