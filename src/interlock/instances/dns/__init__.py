"""Host names of instances: a port, and a file for each way of publishing them.

Who may do what. A name that is published belongs to one instance, and says so in a record beside it. Only that instance
changes or withdraws it; everybody else is refused, and so is whoever finds records there that nobody of us made. What
decides is the name server, in the request that makes the change, never a look beforehand.
"""

from interlock.instances.dns.choosing import chosen
from interlock.instances.dns.port import Dns, Seen

__all__ = ["Dns", "Seen", "chosen"]
