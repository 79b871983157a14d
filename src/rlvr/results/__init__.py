"""What runs have left, for those who read it: tables of studies, and what is computed from them.

`table` joins a study's runs, whose columns `schemas` names, and `studies` reads tables back;
`statistics` has means and intervals over seeds, `theory` and `fixed_points` what to expect. It may
import `methods.columns`, `config` and `jobs`, and never PyTorch.
"""
