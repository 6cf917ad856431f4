"""Checks a database before it is trusted with leases and gates."""

from interlock.doctor.examination import examine
from interlock.doctor.result import Finding, Verdict, exit_status, worst

__all__ = ["Finding", "Verdict", "examine", "exit_status", "worst"]
