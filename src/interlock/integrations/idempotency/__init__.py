"""The ``Idempotency-Key`` header for ASGI and Django: a request that is sent twice is carried out once.

After the IETF's draft-ietf-httpapi-idempotency-key-header. See docs/how-to/idempotency.md for what is guaranteed.

The first request under a key runs while it holds the key's lease; its answer is recorded before a byte of it is sent.
Requests that arrive meanwhile wait for that answer. The mechanism is `Once` alone.

After a crash before the record there is no recorded answer, so the retry runs the application again, at the latest
when the lease has expired. After a crash behind the record, the retry gets the recorded answer.
"""
