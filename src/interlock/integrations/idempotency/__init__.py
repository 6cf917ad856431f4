"""Requests that may be sent twice and are carried out once: the ``Idempotency-Key`` header, for ASGI and Django.

After the IETF's draft-ietf-httpapi-idempotency-key-header. See docs/how-to/idempotency.md for what is guaranteed.

Who may do what. The first request under a key runs, holding the key's lease; its answer is recorded before a byte of it
is sent. Requests that come meanwhile wait for that answer. All of this is `Once`: there is no other mechanism here.

What a crash leaves behind. Before the record: nothing that counts, so the retry runs the application again, at the
latest when the lease has expired. After it: the answer, and the retry is given that.
"""
