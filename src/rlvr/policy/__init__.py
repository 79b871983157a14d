"""The policy: a Transformer, how it is evaluated, sampled from, examined and kept.

`transformer` is the model, with a plain pass (the tests' truth) and a fast one, which rests on
`prefix_tree` and `linear`; `sampling` draws completions, `exam` is exact accuracy, `checkpoints`
reads and writes weights, `device` prepares PyTorch. It may import `task`, `config` and `jobs`.
"""
