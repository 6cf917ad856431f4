"""PostgreSQL: sessions that raise Interlock's errors, named queries, advisory keys."""

from interlock.stores.postgres.advisory import AdvisoryKey
from interlock.stores.postgres.connection import Password, connect
from interlock.stores.postgres.queries import Queries, quote_identifier
from interlock.stores.postgres.session import Session
from interlock.stores.postgres.url import redacted

__all__ = ["AdvisoryKey", "Password", "Queries", "Session", "connect", "quote_identifier", "redacted"]
