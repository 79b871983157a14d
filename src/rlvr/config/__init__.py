"""What may be set: the models of config.yaml's groups, and the words that all rooms share.

`settings/` has a module per group, `methods/` one per way to learn, `rewards/` one per kind of
reward with settings, and `settings/whole.py` puts them together. `values` are the kinds of values
that they are made of, `runs` the keys and paths of runs, `arms` runs that differ in their seeds
alone, `files` looks at config files as text. It imports nothing of ours but `errors`, and nothing
heavy: Snakemake reads it at each start.
"""
