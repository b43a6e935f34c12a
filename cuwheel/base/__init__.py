"""What everything else needs: the system, downloads, file formats, errors."""
