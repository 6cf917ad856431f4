"""The engine of a root object: requests in batches, the queue, renewals, releases and hand-overs."""
