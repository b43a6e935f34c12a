"""Verdicts on facts: what is wrong, why, and what fixes it.

Called by `diagnose`. Each module takes records of `facts/` and gives verdicts.
"""
