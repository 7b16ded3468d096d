"""The parts of scripts/stores-check."""
