"""Programs that make the load, one per contender. They read orders from standard input and answer on standard output.

    python -m benchmarks.loads PROGRAM '{"url": …}'

They run in Interlock's environment or in the peers', and import nothing of the rest of the benchmark.
"""
