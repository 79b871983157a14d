"""The groups of config.yaml: what each setting means, its unit and what is allowed, written once.

The models check config.yaml before any job starts, and stages' flags are made of them. They only
group values, which stand in a rule's params as well, so that `rlvr.jobs.digest` leaves them out.
"""
