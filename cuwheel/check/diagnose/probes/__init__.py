"""Scripts that other interpreters run; each writes its answer as JSON into a file."""
