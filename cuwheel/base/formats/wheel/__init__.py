"""Wheels as archives: reading, writing, metadata, provenance, bill of materials."""

__all__ = [
    "archive",
    "metadata",
    "provenance",
    "publication",
    "record",
    "sbom",
    "variants",
    "zip_reader",
    "zip_writer",
]
