"""GRPO with verifiable rewards on two-digit addition: training, tables, claims and figures."""
