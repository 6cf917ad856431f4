"""What is at the bottom of a connection: the driver's own, which has one session of the server's.

Nothing here waits, so it serves sync and async ones alike.
"""

from typing import Any

_OPEN = (2, 3)  # sound and failed, as libpq has it, and every driver on it


def announced_pid(driver: Any) -> int | None:
    """The server process that the other side named when the connection was opened. None: this driver does not tell.

    A pooler names one that does not exist, and lends the connection another for each transaction.
    """
    if hasattr(driver, "get_server_pid"):  # asyncpg
        pid = driver.get_server_pid()
    else:
        pid = getattr(getattr(driver, "info", None), "backend_pid", None)
    return None if pid is None else int(pid)


def is_engaged(driver: Any) -> bool:
    """Whether a transaction is open in its session, as far as the server has said."""
    if hasattr(driver, "is_in_transaction"):  # asyncpg
        return bool(driver.is_in_transaction())
    return driver.info.transaction_status in _OPEN


def is_closed(driver: Any) -> bool:
    """Broken ones are, as soon as their driver has noticed."""
    return bool(driver.is_closed() if hasattr(driver, "is_closed") else driver.closed)


def hang_up(driver: Any) -> None:
    """End its session, without a word and whatever it is doing."""
    if hasattr(driver, "terminate"):  # asyncpg
        driver.terminate()
    elif hasattr(driver, "pgconn"):  # psycopg 3, whose async connections wait when they are closed
        driver.pgconn.finish()
    else:
        driver.close()
