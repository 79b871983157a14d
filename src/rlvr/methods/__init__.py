"""Ways to learn, one file each: the algorithm from top to bottom, then its command line.

`columns` says what GRPO measures, without PyTorch, for those who read its files; `adam` is the
optimiser. A method's settings are `rlvr.config.methods.NAME`, its rule `workflow/rules/NAME.smk`.
It may import `policy`, `task`, `config` and `jobs`.
"""
