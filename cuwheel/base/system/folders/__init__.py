"""Folders that commands write into: ownership markers, staged files, temporary folders."""

__all__ = ["output_folder", "staged_files", "temporary"]
