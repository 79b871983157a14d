"""GRPO with verifiable rewards on two-digit addition: training stages, tables, claims and figures."""
