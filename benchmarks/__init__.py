"""Benchmarks of Interlock and its peers, measured side by side in one run.

    python -m benchmarks [--quick] [SCENARIO…]

One process drives (`scenarios`); others make the load (`loads`: a program for each contender, in Interlock's own
environment or in the peers'), and every server is started here, on a real disk and a free port of the loopback
address (`servers`). The results are kept as JSON; `report` turns them into the page and the plot in `docs`.
"""
