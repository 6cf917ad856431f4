"""The ``Idempotency-Key`` header for ASGI and Django: a request that is sent twice is carried out once.

This follows the IETF's draft-ietf-httpapi-idempotency-key-header. docs/how-to/idempotency.md lists the guarantees.

The first request under a key runs while it holds the key's lease; its answer is recorded before a byte of it is sent.
Requests that arrive meanwhile wait for that answer. The middleware uses no other mechanism than `Once`.

If the process crashes before the answer is recorded, a retry runs the application again, at the latest when the lease
has expired. If the process crashes later, a retry gets the recorded answer.
"""
