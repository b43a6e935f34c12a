"""A build's folders and settings, the records of its stages, and what is masked in public text."""

__all__ = [
    "cache_contents",
    "failure_record",
    "job",
    "masking",
    "printed_error",
    "problems",
    "records",
    "request",
    "request_check",
    "serialization",
    "workspace",
]
