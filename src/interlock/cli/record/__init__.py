"""Commands on the records of the control plane, the same for every kind of record."""
