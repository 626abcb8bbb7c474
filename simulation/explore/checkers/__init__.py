"""What holds in every run (design section 8), each rule in its own module.

A checker sees what is seen from outside: the API server's objects, the log, the snapshots. It gives sentences that name
the rule and the objects; none means that the rule holds.
"""
