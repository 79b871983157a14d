"""Ways to learn, one file each: the algorithm from top to bottom, then its command line.

`columns` says what runs measure, for those who read their files; `rewards` what a completion earns,
`pairs` what was labelled. A method's settings are `rlvr.config.methods.NAME`, its rule
`workflow/rules/NAME.smk`. It may import `policy`, `task`, `config` and `jobs`.
"""
