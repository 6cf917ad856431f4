"""No DNS: names are kept for people to read, or something else publishes them (as external-dns does)."""

from interlock.names import host_name


class NoDns:
    def full_name(self, name: str) -> str:
        return host_name(name)

    async def check(self, name: str, owner: str) -> None:
        host_name(name)

    async def publish(self, name: str, target: str, owner: str) -> None:
        """There is nothing to do."""

    async def withdraw(self, name: str, owner: str) -> None:
        """There is nothing to do."""

    async def look(self, name: str) -> None:
        """There is nobody to ask."""
