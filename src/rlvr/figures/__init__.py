"""One module per figure, named like the file it draws; `style` and `stage` are what they share."""
