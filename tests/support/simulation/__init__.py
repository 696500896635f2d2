"""Whole jobs under random faults: the AM's real core against a simulated cluster, network and clock.

`shapes` makes a plan of a seed, `cluster` and `network` are the world, `faults` what goes wrong in it. `ledger` and
`policy` follow the events as they are written and know on their own what may come next; `endings` looks at what is
left. `schedule` runs one seed, `batch` many, `mutants` shows that the checks see a mistake. docs/simulation.md
"""
