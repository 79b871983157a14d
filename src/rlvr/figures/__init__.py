"""One module per figure, named like the file it draws; tables in, PDF and PNG out.

`stage` is the command line that they share, `style` the house style, `intervals` means over seeds
with their intervals, `shown` checks before training that a config has what the figures show. It may
import `results`, `config` and `jobs`.
"""
