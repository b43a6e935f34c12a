"""What leaves the machine: index, release, install, rebuild."""
