"""What reads and never builds: CUDA tables, audit, explain, diagnose, pick."""
