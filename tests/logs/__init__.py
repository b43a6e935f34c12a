"""Real failures, reproduced: the logs that `explain` is tested on, and what made them."""
