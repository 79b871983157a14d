"""The policy: a Transformer, how it is evaluated, sampled from, examined and kept.

`policy` is what any of them can do, `engines/` what computes it: `compiled` (a C file, the same
bytes everywhere) or `torch`. `parameters` are its weights, `checkpoints` reads and writes them,
`sampling` draws completions, `exam` is exact accuracy, `scores` has a scalar head. It may import
`task`, `config` and `jobs`.
"""
