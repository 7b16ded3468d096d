"""The parts of scripts/cluster-check."""
