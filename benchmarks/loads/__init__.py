"""Programs that make the load: one contender each, told on standard input what to do, answering on standard output.

    python -m benchmarks.loads PROGRAM '{"url": …}'

They run in Interlock's environment or in the peers', and import nothing of the rest of the benchmark.
"""
