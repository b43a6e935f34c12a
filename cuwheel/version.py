"""The version of cuwheel, which provenance, SBOMs and the rebuild key name."""

__version__ = "0.1.0"
