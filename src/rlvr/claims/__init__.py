"""The documents' claims, measured: tables in, a ledger as Parquet, Markdown and HTML out.

`claim` says what a claim is and how it is judged, `measurements` what is measured by, `document_a`
and `document_b` are the claims, `ledger` is the stage and `pages` what people read of it. It may
import `results`, `config` and `jobs`.
"""
