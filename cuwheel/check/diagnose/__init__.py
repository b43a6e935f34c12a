"""Verdicts on GPU packages, on this machine and in an environment: what fails, why, and the fix.

`facts/` reads the machine and the environment, `rules/` turns facts into verdicts.
"""

__all__ = ["diagnose", "document", "facts", "log_facts", "rules", "verdict"]
