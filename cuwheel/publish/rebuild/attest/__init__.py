"""Signed statements of rebuilders who got a wheel's bytes, their keys, and the policy for them."""

__all__ = ["check", "policy", "signatures", "sigstore", "verification"]
