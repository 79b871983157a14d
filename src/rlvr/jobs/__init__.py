"""What joins a job to Snakemake and to the disk; it knows nothing of what the job computes.

`command_line` turns settings into flags and flags into settings, `isolation` shuts out the user's
environment, `digest` says what a job's results rest on, `records` writes them whole and with their
provenance, `progress` and `messages` tell people. It may import `config`.
"""
